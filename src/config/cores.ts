import { readFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { posix } from 'node:path'

type ReadFile = (path: string) => string

const CGROUPS = '/sys/fs/cgroup'

/**
 * How many threads can really run at once: the cores that the process may use, or fewer where its container has a quota
 * of CPU time. More threads than that only take turns, and are stopped in the middle when the quota is used up.
 */
export function availableCores(readFile: ReadFile = (path) => readFileSync(path, 'utf8'), allowedCores = availableParallelism()): number {
  return Math.max(1, Math.min(allowedCores, Math.floor(quotaCores(readFile))))
}

/** The smallest quota of all groups that the process is in; what cannot be read sets none. */
function quotaCores(readFile: ReadFile): number {
  let smallest = Number.POSITIVE_INFINITY
  for (const line of (readOrNothing(readFile, '/proc/self/cgroup') ?? '').split('\n')) {
    const [, id, controllers, group] = /^(\d+):([^:]*):(\/.*)$/.exec(line) ?? []
    if (group === undefined) continue
    if (id === '0' && controllers === '') {
      for (const folder of foldersUpFrom(CGROUPS, group)) smallest = Math.min(smallest, quotaV2(readFile, folder))
    } else if (controllers!.split(',').includes('cpu')) {
      for (const mount of new Set(['cpu', controllers!])) {
        for (const folder of foldersUpFrom(`${CGROUPS}/${mount}`, group)) smallest = Math.min(smallest, quotaV1(readFile, folder))
      }
    }
  }
  return smallest
}

/** The group's folder and all above it: a container may see its own group at the top and its path as the host does. */
function foldersUpFrom(mount: string, group: string): string[] {
  const folders = [mount]
  let folder = mount
  // A group outside of what the container may see begins with `..`; resolved against the root, that is the top.
  for (const name of posix.resolve('/', group).split('/').filter(Boolean)) {
    folder = `${folder}/${name}`
    folders.push(folder)
  }
  return folders
}

/** "max 100000" or "150000 100000": microseconds of CPU time in each period. */
function quotaV2(readFile: ReadFile, folder: string): number {
  const [quota, period] = (readOrNothing(readFile, `${folder}/cpu.max`) ?? '').trim().split(' ')
  return coresOf(quota, period)
}

function quotaV1(readFile: ReadFile, folder: string): number {
  return coresOf(readOrNothing(readFile, `${folder}/cpu.cfs_quota_us`), readOrNothing(readFile, `${folder}/cpu.cfs_period_us`))
}

/** "max" and -1 set no limit. */
function coresOf(quota: string | undefined, period: string | undefined): number {
  const cores = Number(quota) / Number(period)
  return cores > 0 ? cores : Number.POSITIVE_INFINITY
}

function readOrNothing(readFile: ReadFile, path: string): string | undefined {
  try {
    return readFile(path)
  } catch {
    return undefined // no such group or no such controller
  }
}
