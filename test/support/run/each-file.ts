import { readFileSync } from 'node:fs'
import { afterAll } from 'vitest'
import { poisonReads } from '../../../src/memory/read-buffers.ts'
import './property-runs.ts'

declare module 'vitest' {
  interface TaskMeta {
    /** CPU time of the file's worker, from loading the file to its last test, with everything that it started and waited for. */
    cpuMs?: number
  }
}

/** Linux counts in hundredths of a second, whatever the machine: `getconf CLK_TCK`. */
const MS_PER_TICK = 10

// In every test whose edge runs in this process: bytes that were kept without a copy show at once.
poisonReads()

// Vitest runs this file anew before each test file, and a worker runs one file at a time.
const beforeMs = cpuMs()
// biome-ignore lint/correctness/noEmptyPattern: Vitest wants the fixtures that are used spelled out, and there are none.
afterAll(({}, suite) => {
  suite.file.meta.cpuMs = cpuMs() - beforeMs
})

/** This process with all its threads and, where Linux tells it, the children that have ended. */
function cpuMs(): number {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1000 + childrenMs()
}

function childrenMs(): number {
  if (process.platform !== 'linux') return 0
  // The second field is the program's name in brackets; the 16th and 17th are the children's user and system time.
  const fields = readFileSync('/proc/self/stat', 'utf8')
    .replace(/^.*\) /s, '')
    .split(' ')
  return (Number(fields[13]) + Number(fields[14])) * MS_PER_TICK
}
