"""What tests of programs with goals use: scripted doubles, and replayed runs.

`doubles` has an agent, a validator, a judge and a person that play a script. `replay`
makes a regression test of a recorded run; `recording` is its content, with the file
format, and `run_reading` makes one of a run's folder. goalrunner itself imports this
package only to export a recording.
"""

from goalrunner.testing.doubles import ScriptedApprover as ScriptedApprover
from goalrunner.testing.doubles import ScriptedConversation as ScriptedConversation
from goalrunner.testing.doubles import ScriptedJudge as ScriptedJudge
from goalrunner.testing.doubles import ScriptedRound as ScriptedRound
from goalrunner.testing.doubles import ScriptedValidator as ScriptedValidator
from goalrunner.testing.doubles import ScriptExhausted as ScriptExhausted
from goalrunner.testing.doubles import satisfied as satisfied
from goalrunner.testing.doubles import shell_result as shell_result
from goalrunner.testing.doubles import unsatisfied as unsatisfied
from goalrunner.testing.replay import Replay as Replay
from goalrunner.testing.replay import replay as replay
