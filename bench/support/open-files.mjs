import { readFileSync } from 'node:fs'

/** Of a process: node raises its own limit to this one, and whoever it starts has the same. */
export function maxOpenFiles() {
  return Number(/^Max open files\s+\S+\s+(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8'))?.[1] ?? Number.MAX_SAFE_INTEGER)
}
