import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdir } from 'node:fs/promises'
import { dirname } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished } from 'vitest'
import { acquireStateLock } from '../../../src/store/state/state-lock.ts'

/** So many processes that want the file at the same moment, after one that had it was killed. */
export async function expectOneWinner(path: string, processes: number): Promise<void> {
  const dead = await LockProcess.start(path)
  expect(await dead.lock()).toBe('holds')
  await dead.kill()
  const all = await Promise.all(Array.from({ length: processes }, () => LockProcess.start(path)))
  const answers = await Promise.all(all.map((each) => each.lock()))
  const winner = all[answers.indexOf('holds')]!
  expect(answers.toSorted()).toEqual([...new Array(processes - 1).fill(`StateInUse ${winner.pid}`), 'holds'])
  expect(await readdir(dirname(path))).toHaveLength(1)
}

/** Twelve at once in this process, so many times over. */
export async function expectOneWinnerEachRound(path: string, rounds: number): Promise<void> {
  for (let round = 0; round < rounds; round++) {
    const answers = await Promise.allSettled(Array.from({ length: 12 }, () => acquireStateLock(path)))
    const won = answers.filter((answer) => answer.status === 'fulfilled')
    expect(won).toHaveLength(1)
    await won[0]!.value.release()
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
