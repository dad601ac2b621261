import { readFileSync } from 'node:fs'

/** How many descriptors this process may have. Node has raised the soft limit to the hard one. */
export function descriptorLimit(): number {
  try {
    return linuxDescriptorLimit()
  } catch {
    // No /proc
  }
  const { spawnSync } = process.getBuiltinModule('node:child_process') // not loaded where there is one
  const { stdout } = spawnSync('sh', ['-c', 'ulimit -n'], { encoding: 'utf8' })
  const limit = Number.parseInt(stdout ?? '', 10)
  return Number.isNaN(limit) ? Number.POSITIVE_INFINITY : limit
}

/** Throws where there is no /proc, or no descriptor left to read it. */
export function linuxDescriptorLimit(): number {
  const [, limit] = /^Max open files +(\S+)/m.exec(readFileSync('/proc/self/limits', 'utf8')) ?? []
  return limit === 'unlimited' ? Number.POSITIVE_INFINITY : Number(limit)
}
