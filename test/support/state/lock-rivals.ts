import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdir } from 'node:fs/promises'
import { dirname } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished } from 'vitest'
import { acquireStateLock } from '../../../src/store/state/state-lock.ts'

/**
 * So many processes that want the file at the same moment, after one that had it was killed. Who does not reply within two seconds counts as
 * the one that has it: on a machine that stands still for so long none of them may get it, and then others try.
 */
export async function expectOneWinner(path: string, processes: number): Promise<void> {
  while (!(await hasOneWinner(path, processes)));
}

async function hasOneWinner(path: string, processes: number): Promise<boolean> {
  const dead = await LockProcess.start(path)
  expect(await dead.lock()).toBe('holds')
  await dead.kill()
  const all = await Promise.all(Array.from({ length: processes }, () => LockProcess.start(path)))
  const answers = await Promise.all(all.map((each) => each.lock()))
  const losers = answers.filter((answer) => answer !== 'holds')
  const winners = all.filter((_, i) => answers[i] === 'holds')
  const named = [...all.map(({ pid }) => pid), undefined].map((pid) => `StateInUse ${pid}`)
  expect(losers.filter((answer) => !named.includes(answer))).toEqual([])
  expect(winners.length).toBeLessThanOrEqual(1)
  expect(await readdir(dirname(path))).toHaveLength(winners.length)
  await Promise.all(all.map((each) => each.kill()))
  return winners.length === 1
}

/** Twelve at once in this process, so many times over, not counting those in which nobody replied in time. */
export async function expectOneWinnerEachRound(path: string, rounds: number): Promise<void> {
  for (let round = 0; round < rounds; ) {
    const answers = await Promise.allSettled(Array.from({ length: 12 }, () => acquireStateLock(path)))
    const won = answers.filter((answer) => answer.status === 'fulfilled')
    expect(won.length).toBeLessThanOrEqual(1)
    for (const { value } of won) await value.release()
    round += won.length
  }
  expect(await readdir(dirname(path))).toEqual([])
}

/** A process that locks the file on request, for as long as the test runs. */
export class LockProcess {
  readonly #process: ChildProcess
  readonly #lines: AsyncIterator<string>

  private constructor(path: string) {
    const entry = fileURLToPath(new URL('./lock-process.mjs', import.meta.url))
    this.#process = spawn(process.execPath, [entry, path], { stdio: ['pipe', 'pipe', 'inherit'] })
    this.#lines = createInterface(this.#process.stdout!)[Symbol.asyncIterator]()
    onTestFinished(() => void this.#process.kill('SIGKILL'))
  }

  static async start(path: string): Promise<LockProcess> {
    const started = new LockProcess(path)
    await started.#lines.next()
    return started
  }

  get pid(): number {
    return this.#process.pid!
  }

  async lock(): Promise<string> {
    this.#process.stdin!.write('lock\n')
    return (await this.#lines.next()).value as string
  }

  async kill(): Promise<void> {
    this.#process.kill('SIGKILL')
    await once(this.#process, 'exit')
  }

  async endInput(): Promise<number> {
    this.#process.stdin!.end()
    const [code] = await once(this.#process, 'exit')
    return code as number
  }
}
