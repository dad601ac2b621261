import { readdirSync, readFileSync } from 'node:fs'

/**
 * What all threads of a process and of its children have used so far, user and system, in ns each; nginx serves from a child.
 * This is the scheduler's own count: that of /proc/PID/stat is the same one, rounded to 10 ms.
 */
export function cpuTimes(pid, times = new Map()) {
  for (const thread of readdirSync(`/proc/${pid}/task`)) {
    times.set(thread, Number(read(pid, thread, 'schedstat').split(' ')[0]))
    for (const child of read(pid, thread, 'children').split(' ').filter(Boolean)) cpuTimes(child, times)
  }
  return times
}

export function usedUs(before, after) {
  let ns = 0
  for (const [thread, time] of after) ns += time - (before.get(thread) ?? 0)
  for (const thread of before.keys()) if (!after.has(thread)) throw new Error('a thread ended while it was measured: its time is lost')
  return ns / 1000
}

function read(pid, thread, name) {
  return readFileSync(`/proc/${pid}/task/${thread}/${name}`, 'utf8')
}
