import { spawnSync } from 'node:child_process'
import { accessSync, constants } from 'node:fs'
import { delimiter, join } from 'node:path'

// Debian's servers are where only root's PATH looks.
const DIRECTORIES = [...(process.env.PATH ?? '').split(delimiter), '/usr/sbin', '/usr/local/sbin']

/** Where a program is, or undefined when it is not installed. */
export function findProgram(name) {
  return DIRECTORIES.map((directory) => join(directory, name)).find(isExecutable)
}

/** The first thing that looks like a version in what it says about itself. */
export function versionOf(file, flag = '-v') {
  const { stdout, stderr } = spawnSync(file, [flag], { encoding: 'utf8' })
  return /\d+\.\d+[.\d]*/.exec(stdout + stderr)?.[0]
}

export function isExecutable(path) {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}
