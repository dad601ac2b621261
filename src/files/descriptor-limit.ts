import { readFileSync } from 'node:fs'

/** Returns how many file descriptors this process may have. Node has already raised the soft limit to the hard one. */
export function descriptorLimit(): number {
  try {
    return linuxDescriptorLimit()
  } catch {
    // There is no /proc on this system.
  }
  const { spawnSync } = process.getBuiltinModule('node:child_process') // loaded only where there is no /proc
  const { stdout } = spawnSync('sh', ['-c', 'ulimit -n'], { encoding: 'utf8' })
  const limit = Number.parseInt(stdout ?? '', 10)
  return Number.isNaN(limit) ? Number.POSITIVE_INFINITY : limit
}

/** Throws if there is no /proc, or no descriptor left to read it. */
export function linuxDescriptorLimit(): number {
  const [, limit] = /^Max open files +(\S+)/m.exec(readFileSync('/proc/self/limits', 'utf8')) ?? []
  return limit === 'unlimited' ? Number.POSITIVE_INFINITY : Number(limit)
}
