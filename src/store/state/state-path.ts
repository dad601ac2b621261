import { readlink, realpath } from 'node:fs/promises'
import { basename, dirname, join, resolve } from 'node:path'
import { StateFault } from './state-fault.ts'

const MAX_LINKS = 40

/**
 * The real path of the state file, whether or not it exists: all symlinks are resolved, its own too. All names of a file
 * then share one lock, and a save replaces the file that a link points to, not the link.
 */
export async function resolveStatePath(path: string): Promise<string> {
  try {
    return await resolveLinks(path)
  } catch (error) {
    throw new StateFault(`cannot reach ${path}`, error)
  }
}

async function resolveLinks(path: string): Promise<string> {
  let at = resolve(path)
  for (let links = 0; links < MAX_LINKS; links++) {
    const directory = await realpath(dirname(at))
    const target = await readlink(join(directory, basename(at))).catch(orUndefined('EINVAL', 'ENOENT'))
    if (target === undefined) return join(directory, basename(at))
    at = resolve(directory, target)
  }
  return realpath(at)
}

function orUndefined(...codes: string[]) {
  return (error: NodeJS.ErrnoException): undefined => {
    if (!codes.includes(error.code!)) throw error
  }
}
