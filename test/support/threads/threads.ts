import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import { onTestFinished } from 'vitest'

/**
 * Runs one of the .mjs files beside this one in a thread of its own, on the built program, and answers what it posted
 * last. A thread that fails fails the test.
 */
export async function runThread(name: string, workerData: object): Promise<unknown> {
  const worker = startThread(name, workerData)
  let answer: unknown
  worker.on('message', (message) => {
    answer = message
  })
  await once(worker, 'exit')
  return answer
}

/** A thread that hangs ends with its test. */
export function startThread(name: string, workerData: object): Worker {
  // No TypeScript: without the loader of it, a thread starts in a fraction of the time.
  const worker = new Worker(new URL(`./${name}.mjs`, import.meta.url), { workerData, execArgv: [] })
  onTestFinished(async () => {
    await worker.terminate()
  })
  return worker
}

/** Where `count` threads meet before they begin, so that they do run at the same time. */
export function newGate(count: number): { readonly words: Int32Array; readonly count: number } {
  return { words: new Int32Array(new SharedArrayBuffer(4)), count }
}
