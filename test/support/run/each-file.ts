import { readFileSync } from 'node:fs'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
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

/**
 * What ended edges have mapped, most of it untouched, stays until it is collected, which nothing but memory in use hastens. Linux refuses to start a process
 * from one that has mapped more than the machine has.
 */
const MAX_MAPPED_BYTES = 4 * 1024 ** 3

// Vitest runs this file anew before each test file, and a worker runs one file at a time.
const beforeMs = cpuMs()
// biome-ignore lint/correctness/noEmptyPattern: Vitest wants the fixtures that are used spelled out, and there are none.
afterAll(({}, suite) => {
  suite.file.meta.cpuMs = cpuMs() - beforeMs
  if (mappedBytes() > MAX_MAPPED_BYTES) collectGarbage()
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

function mappedBytes(): number {
  if (process.platform !== 'linux') return 0
  return Number(/^VmData:\s+(\d+) kB$/m.exec(readFileSync('/proc/self/status', 'utf8'))![1]) * 1024
}

function collectGarbage(): void {
  setFlagsFromString('--expose-gc')
  runInNewContext('gc')()
}
