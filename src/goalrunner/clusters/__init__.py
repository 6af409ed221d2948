"""Goals as jobs of clusters: `goal export --kubernetes`, `--slurm`, `--github-matrix`.

`tasks` makes a list of tasks from goal files of a repository, and `manifests` makes the
files of each system from it. A new system is a template and a function in `manifests`,
and a flag of `goal export`.
"""
