# Filled by the programs' own folders: install(TARGETS) stands beside each target.
