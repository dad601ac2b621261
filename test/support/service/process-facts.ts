import { existsSync } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import { describe } from 'vitest'
import { until } from '../until.ts'
import type { Cli } from './cli.ts'

/** Looks of `until` in which a process at rest uses no processor time. */
const CALM_LOOKS = 20

/** Tests that look at a process from outside, as Linux lets them. Elsewhere they are skipped, and say so. */
export function describeWithProc(name: string, body: () => void): void {
  if (existsSync('/proc/self/status')) return void describe(name, body)
  process.stderr.write(`\nSKIPPED: "${name}": /proc is not there\n`)
  describe.skip(name, body)
}

/** Memory that the process has now (VmRSS), and the most that it ever had (VmHWM). */
export async function memoryKib(cli: Cli, line: 'VmRSS' | 'VmHWM'): Promise<number> {
  const status = await readFile(`/proc/${cli.process.pid}/status`, 'utf8')
  return Number(new RegExp(`^${line}:\\s+(\\d+) kB$`, 'm').exec(status)![1])
}

/** Connections among them. */
export async function openFiles(cli: Cli): Promise<number> {
  return (await readdir(`/proc/${cli.process.pid}/fd`)).length
}

/** Stops it by SIGSTOP, and waits until none of its threads runs. It accepts connections still: the kernel does that for it. */
export async function suspend(cli: Cli): Promise<void> {
  cli.process.kill('SIGSTOP')
  const tasks = `/proc/${cli.process.pid}/task`
  await until(async () => {
    const states = await Promise.all((await readdir(tasks)).map((task) => readFile(`${tasks}/${task}/status`, 'utf8')))
    return states.every((status) => /^State:\s+T/m.test(status))
  })
}

/** Waits until nothing moves any more: the process has used no processor time for a while, and wants none. */
export async function untilCalm(cli: Cli): Promise<void> {
  let [last, unchanged] = ['', 0]
  await until(async () => {
    const ticks = (await readFile(`/proc/${cli.process.pid}/stat`, 'utf8')).split(' ').slice(13, 15).join(' ')
    unchanged = ticks === last && !(await hasRunnableThread(cli)) ? unchanged + 1 : 0
    last = ticks
    return unchanged >= CALM_LOOKS
  })
}

/** Whether a thread runs, or would if it were given a processor. */
async function hasRunnableThread({ process: { pid } }: Cli): Promise<boolean> {
  const tasks = await readdir(`/proc/${pid}/task`)
  const states = await Promise.all(tasks.map((task) => readFile(`/proc/${pid}/task/${task}/status`, 'utf8').catch(() => '')))
  return states.some((status) => /^State:\s+R/m.test(status))
}
