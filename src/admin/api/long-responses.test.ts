import { IncomingMessage } from 'node:http'
import { Socket } from 'node:net'
import { setImmediate as turn } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { ClientGone } from './api-error.ts'
import { LongResponses } from './long-responses.ts'

test('texts are made one after the other, and other work goes on between their slices', async () => {
  const long = new LongResponses()
  const steps: string[] = []
  let isOver = false
  const both = Promise.all(['a', 'b'].map((name) => long.serve(client(), ({ make }) => make(busy(name, steps))))).finally(() => {
    isOver = true
  })
  let turns = 0
  for (; !isOver; turns++) await turn()
  expect((await both).map(String)).toEqual(['text a', 'text b'])
  expect(steps.join('')).toBe('aaaabbbb')
  expect(turns).toBeGreaterThan(steps.length)
})

test('one that breaks does not hold up the next', async () => {
  const long = new LongResponses()
  const [broken, next] = [long.make(breaking()), long.make(busy('next', []))]
  await expect(broken).rejects.toThrow('broken')
  expect(String(await next)).toBe('text next')
})

test('a client beyond the sixty-fourth is refused, until one of them is answered', async () => {
  const long = new LongResponses()
  let answerAll = (_text: string): void => {}
  const held = new Promise<string>((resolve) => {
    answerAll = resolve
  })
  const clients = Array.from({ length: 64 }, () => long.serve(client(), () => held))
  await expect(long.serve(client(), () => held)).rejects.toMatchObject({ status: 503, code: 'too_many_readers' })
  answerAll('text')
  expect(new Set(await Promise.all(clients))).toEqual(new Set(['text']))
  expect(await long.serve(client(), () => held)).toBe('text')
})

test('nothing more is made for a client that leaves: of the text in progress no further step, of the one that waits none', async () => {
  const long = new LongResponses()
  const [leaving, waiting, staying] = [client(), client(), client()]
  const steps: string[] = []
  const first = long.serve(leaving, ({ make }) => make(endless(steps)))
  const second = long.serve(waiting, ({ make }) => make(busy('waiting', steps)))
  const third = long.serve(staying, ({ make }) => make(busy('staying', steps)))
  waiting.socket.destroy()
  // It is told at once, while the first is still in progress.
  await expect(second).rejects.toThrow(ClientGone)
  leaving.socket.destroy()
  await expect(first).rejects.toThrow(ClientGone)
  expect(String(await third)).toBe('text staying')
  expect(steps.filter((step) => step !== 'endless')).toEqual(['staying', 'staying', 'staying', 'staying'])
})

test('a client that has left before its turn gets nothing made, and leaves no listener behind', async () => {
  const long = new LongResponses()
  const [gone, there] = [client(), client()]
  gone.socket.destroy()
  const steps: string[] = []
  await expect(long.serve(gone, ({ make }) => make(busy('gone', steps)))).rejects.toThrow(ClientGone)
  await expect(long.serve(gone, async ({ refuseIfGone }) => refuseIfGone())).rejects.toThrow(ClientGone)
  await long.serve(there, async ({ refuseIfGone }) => refuseIfGone())
  expect([steps, there.socket.listenerCount('close')]).toEqual([[], 0])
})

function client(): IncomingMessage {
  return new IncomingMessage(new Socket())
}

/** Each step takes longer than a slice. */
function* busy(name: string, steps: string[]): Generator<void, Buffer> {
  for (let i = 0; i < 4; i++) {
    for (const endMs = performance.now() + 3; performance.now() < endMs; );
    steps.push(name)
    yield
  }
  return Buffer.from(`text ${name}`)
}

function* endless(steps: string[]): Generator<void, Buffer> {
  for (;;) {
    steps.push('endless')
    yield
  }
}

// biome-ignore lint/correctness/useYield: it throws before it could
function* breaking(): Generator<void, Buffer> {
  throw new Error('broken')
}
