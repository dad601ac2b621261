import { spawn, spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { type Owner, thisTest } from '../service/running.ts'
import { testPart } from '../test-part.ts'
import type { Client, Seen } from './sdk-clients.ts'

const SCRIPT = fileURLToPath(new URL('./python-clients.py', import.meta.url))
const PACKAGES = testPart('python-sdks')

/** Says what is missing for clients in Python; undefined if nothing is. */
export const missingPython: string | undefined =
  existsSync(PACKAGES) && spawnSync('python3', ['-c', 'import openai, anthropic'], { env: environment() }).status === 0
    ? undefined
    : "the Python libraries of OpenAI and Anthropic are missing: run 'sh scripts/install-test-parts.sh'"

/** The official libraries for Python, in one process for as long as the test runs. */
export function pythonClient(port: number, owner: Owner = thisTest): Client {
  const child = spawn('python3', [SCRIPT], {
    env: { ...environment(), EDGE_TEST_PORT: String(port) },
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const waiting = new Map<string, (seen: Seen) => void>()
  const exited = new Promise((resolve) => child.on('close', resolve))
  createInterface({ input: child.stdout }).on('line', (line) => {
    const { marker, seen } = JSON.parse(line) as { readonly marker: string; readonly seen: Seen }
    waiting.get(marker)!(seen)
    waiting.delete(marker)
  })
  owner.onTestFinished(async () => {
    child.kill('SIGKILL')
    await exited
  })
  return (asked) =>
    new Promise((resolve) => {
      waiting.set(asked.marker, resolve)
      child.stdin.write(`${JSON.stringify(asked)}\n`)
    })
}

function environment(): Record<string, string> {
  return { PATH: process.env['PATH'] ?? '', HOME: process.env['HOME'] ?? '', PYTHONPATH: PACKAGES, PYTHONDONTWRITEBYTECODE: '1' }
}
