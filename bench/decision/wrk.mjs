import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { OTHERS, run } from '../support/processes.mjs'
import { newScratchDirectory } from '../support/scratch.mjs'
import { versionOf } from './programs.mjs'

const SCRIPT = fileURLToPath(new URL('./wrk.lua', import.meta.url))
const CONNECTIONS = 32

/** Load from wrk: one thread, a request at a time on each connection. */
export function newWrkLoad(file) {
  const path = join(newScratchDirectory(), 'request')
  return {
    name: `wrk ${versionOf(file)}`,
    details: `${CONNECTIONS} connections, one request at a time on each`,

    async run({ port, text, seconds, keys, isSecure = false }) {
      writeFileSync(path, text)
      const script = [path, ...(keys === undefined ? [] : [keys.first, keys.count])].map(String)
      const args = [
        '-t1',
        `-c${CONNECTIONS}`,
        `-d${seconds}s`,
        '--timeout',
        '10s',
        '-s',
        SCRIPT,
        `${isSecure ? 'https' : 'http'}://127.0.0.1:${port}/`,
        '--',
        ...script,
      ]
      const { requests, elapsedUs, rejected, failed } = JSON.parse((await run(OTHERS, file, args)).trim().split('\n').at(-1))
      return { requests, rejected, failed, elapsedMs: elapsedUs / 1000 }
    },
  }
}
