import { symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { type Owner, scratchDirectory } from '../service/running.ts'
import { succeed } from './npm.ts'
import { ROOT } from './source-copy.ts'

/**
 * Builds the program of an earlier commit, and returns its path: the one that last changed the locked packages, because it builds with those that are
 * installed now. In a clone without history this is the commit that is there.
 */
export async function earlierProgram(owner: Owner): Promise<string> {
  const folder = await scratchDirectory(owner)
  const commit = (await succeed(ROOT, 'git', 'log', '-1', '--format=%H', '--', 'package-lock.json')).trim()
  await succeed(ROOT, 'sh', '-c', 'git archive "$0" | tar -x -C "$1"', commit, folder)
  await symlink(join(ROOT, 'node_modules'), join(folder, 'node_modules'))
  await succeed(folder, 'npm', 'run', '--silent', 'build')
  return join(folder, 'program/edge.js')
}
