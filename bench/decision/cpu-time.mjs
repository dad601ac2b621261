import { readdirSync, readFileSync } from 'node:fs'

/** A process and its children: nginx serves from a child. */
export function familyOf(pid) {
  const children = threadsOf(pid).flatMap((thread) =>
    readFileSync(`/proc/${pid}/task/${thread}/children`, 'utf8').split(' ').filter(Boolean),
  )
  return [pid, ...children.flatMap((child) => familyOf(Number(child)))]
}

/**
 * What all threads of some processes have used so far, user and system, in ns each. The scheduler's own count: that of
 * /proc/PID/stat is the same one, rounded to 10 ms.
 */
export function cpuTimes(pids) {
  const times = new Map()
  for (const pid of pids) {
    for (const thread of threadsOf(pid))
      times.set(thread, Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'utf8').split(' ')[0]))
  }
  return times
}

export function usedUs(before, after) {
  let ns = 0
  for (const [thread, time] of after) ns += time - (before.get(thread) ?? 0)
  for (const thread of before.keys()) if (!after.has(thread)) throw new Error('a thread ended while it was measured: its time is lost')
  return ns / 1000
}

function threadsOf(pid) {
  return readdirSync(`/proc/${pid}/task`)
}
