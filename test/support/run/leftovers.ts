import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

/** A process that was told to end may need so long on a busy machine. */
const PATIENCE_MS = 10_000
const POLL_MS = 100
/** Another exit code than that of failed tests: what is left behind has no file that could be run once more. */
const LEFT = 3

/**
 * Vitest's global setup: the run gets a folder for all its temporary files, and fails if files or processes are left when it ends.
 * The folder is also the last entry of PATH, which everything that a test starts inherits: so processes can be told from those of
 * another run.
 */
export function setup(): () => Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'er-')) // short: paths of sockets below it may have 107 bytes
  process.env['TMPDIR'] = folder
  process.env['PATH'] = `${process.env['PATH'] ?? ''}${delimiter}${folder}`
  return async () => {
    const processes = await leftProcesses(folder)
    const files = readdirSync(folder, { recursive: true, encoding: 'utf8' })
    rmSync(folder, { recursive: true, force: true })
    if (processes.length + files.length === 0) return
    process.exitCode = LEFT
    const list = [...processes.map((command) => `process ${command}`), ...files.map((file) => `file ${file}`)]
    process.stderr.write(`\nFAILED: the tests left behind:\n${list.map((one) => `  ${one}\n`).join('')}`)
  }
}

async function leftProcesses(folder: string): Promise<string[]> {
  for (let waitedMs = 0; ; waitedMs += POLL_MS) {
    const left = processesOf(folder)
    if (left.length === 0 || waitedMs >= PATIENCE_MS) return left
    await sleep(POLL_MS)
  }
}

/** Those that the run has started, by what Linux tells of them; elsewhere nothing is known. */
function processesOf(folder: string): string[] {
  if (process.platform !== 'linux') return []
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
    .flatMap((pid) => {
      const command = readProc(pid, 'cmdline').replaceAll('\0', ' ').trim()
      // Vitest's own workers are children of this process, and end with it.
      const parent = /\) \S (\d+) /.exec(readProc(pid, 'stat'))?.[1]
      const isOurs = readProc(pid, 'environ').includes(folder) && parent !== String(process.pid)
      return isOurs && command !== '' ? [`${pid}: ${command}`] : []
    })
}

/** Empty where the process is gone or another user's. */
function readProc(pid: string, file: 'cmdline' | 'environ' | 'stat'): string {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'utf8')
  } catch {
    return ''
  }
}
