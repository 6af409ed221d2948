# Run a goal of a repository in a folder of its own, or go on with its run.
# The same call can be made again at any time: it clones nothing twice, and `goal run --id` resumes.
# Variables: GOAL_HOME (a folder that lasts), GOAL_REPOSITORY, GOAL_COMMIT, GOAL_ID, GOAL_FILE
set -eu
workspace=$GOAL_HOME/workspaces/$GOAL_ID
if [ ! -d "$workspace" ]; then
    # Under another name until it is whole, because the job may be killed at any moment.
    rm -rf "$workspace.new"
    git clone --quiet --no-checkout "$GOAL_REPOSITORY" "$workspace.new"
    git -C "$workspace.new" checkout --quiet --detach "$GOAL_COMMIT"
    mv "$workspace.new" "$workspace"
fi
cd "$workspace"
exec goal run "$GOAL_FILE" --id "$GOAL_ID"
