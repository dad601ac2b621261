import { lstat, rename } from 'node:fs/promises'
import { StateFault } from './state-fault.ts'

/**
 * Renames a damaged file to a free name that is never read. The caller holds its lock. Returns the name.
 */
export async function setAside(path: string, wallMs: number): Promise<string> {
  const stamp = new Date(wallMs).toISOString().replaceAll(/[-:]|\.\d+/g, '')
  const wanted = `${path}.damaged-${stamp}`
  try {
    let name = wanted
    for (let i = 2; await exists(name); i++) name = `${wanted}-${i}`
    await rename(path, name)
    return name
  } catch (error) {
    throw new StateFault(`cannot set ${path} aside`, error)
  }
}

async function exists(path: string): Promise<boolean> {
  try {
    await lstat(path)
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    return false
  }
}
