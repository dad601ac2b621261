import { createServer, get, type IncomingMessage, type ServerResponse } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { until } from '../../../test/support/until.ts'
import type { PublishedEvent } from '../../telemetry/events/published-events.ts'
import type { Series } from '../../telemetry/metrics/metric-families.ts'
import { EventStreams, type EventsAsk, type EventsPage, type StreamWish } from './event-streams.ts'

const LINE = JSON.stringify({ event: 'reject', filler: 'x'.repeat(1000) })
const BATCH: readonly PublishedEvent[] = Array.from({ length: 100 }, () => ({ name: 'reject', line: LINE }))

/** Streams behind a real server, of which every request is a reader. */
class Serving {
  readonly dropped = { count: 0 } as Series
  readonly streams: EventStreams
  places = 0
  isAllowed = true
  wish: StreamWish = {}
  page: (ask: EventsAsk) => EventsPage | Promise<EventsPage> = () => ({ events: [], last: 0, isEnd: true })
  /** The largest amount that ever waited for one reader. */
  mostUnsent = 0
  readonly #responses: ServerResponse[] = []
  #port = 0

  private constructor(beatMs: number) {
    this.streams = new EventStreams({
      claim: async () => {
        this.places++
      },
      giveBack: () => {
        this.places--
      },
      page: async (ask) => this.page(ask),
      dropped: this.dropped,
      onError: (error) => {
        throw error
      },
      wallMs: () => 0,
      beatMs,
    })
  }

  static async start(beatMs = 15_000): Promise<Serving> {
    const serving = new Serving(beatMs)
    const server = createServer((_req, res) => {
      serving.#responses.push(res)
      void serving.streams.claim().then(() => serving.streams.add(res, serving.wish, () => serving.isAllowed))
    })
    // As the admin listener is set up
    ;(server as { httpAllowHalfOpen?: boolean }).httpAllowHalfOpen = true
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    onTestFinished(() => {
      serving.streams.end()
      server.close()
      server.closeAllConnections()
    })
    serving.#port = (server.address() as AddressInfo).port
    return serving
  }

  read(): Promise<IncomingMessage> {
    return new Promise((resolve) => {
      const req = get({ port: this.#port, host: '127.0.0.1', agent: false }, resolve)
      req.on('error', () => {})
      onTestFinished(() => void req.destroy())
    })
  }

  connect(): Socket {
    const socket = connect({ port: this.#port, host: '127.0.0.1', allowHalfOpen: true })
    socket.on('error', () => {})
    onTestFinished(() => void socket.destroy())
    return socket
  }

  deliver(): Promise<void> {
    return new Promise((resolve) =>
      this.streams.deliver(BATCH, () => {
        this.mostUnsent = Math.max(this.mostUnsent, ...this.#responses.map(({ writableLength }) => writableLength))
        resolve()
      }),
    )
  }
}

function textOf(res: IncomingMessage): { text: string } {
  const read = { text: '' }
  res.setEncoding('utf8').on('data', (text: string) => {
    read.text += text
  })
  res.on('error', () => {})
  return read
}

test('a reader that stalls costs no memory: what it has no room for is dropped, counted, and announced to it later', async () => {
  const serving = await Serving.start()
  const slow = await serving.read()
  const quick = textOf(await serving.read())
  let sent = 0
  const deliver = async (): Promise<void> => {
    await serving.deliver()
    sent += BATCH.length
  }
  while (serving.dropped.count < 1000) await deliver()
  expect(serving.mostUnsent).toBeLessThan(128 * 1024 + BATCH.length * 1100)
  const read = textOf(slow) // it goes on
  const received = (): number => read.text.split('event: reject\n').length - 1
  const announced = (): number => [...read.text.matchAll(/"dropped":(\d+)/g)].reduce((sum, [, count]) => sum + Number(count), 0)
  await until(async () => {
    if (announced() < serving.dropped.count) await deliver()
    return received() + announced() === sent
  })
  expect(announced()).toBe(serving.dropped.count)
  await until(() => quick.text.split('event: reject\n').length - 1 === sent)
})

test('a reader that takes nothing for long is cut off, and its place is free', async () => {
  const serving = await Serving.start(20)
  const res = await serving.read()
  res.on('error', () => {})
  // It may be cut off before there is more than it can be sent.
  while (serving.dropped.count === 0 && serving.places > 0) await serving.deliver()
  await until(() => serving.places === 0)
})

test('a comment now and then shows that the connection is alive', async () => {
  const serving = await Serving.start(5)
  const { text } = await serving.read().then(async (res) => {
    const read = textOf(res)
    await until(() => read.text.includes(':\n\n:\n\n'))
    return read
  })
  expect(text.startsWith('retry: 3000\n\n:\n\n')).toBe(true)
  expect(serving.places).toBe(1)
})

test('a reader that closes its side is gone at once', async () => {
  const serving = await Serving.start()
  const socket = serving.connect()
  socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n')
  await until(() => serving.places === 1)
  socket.resume().end()
  await until(() => serving.places === 0)
})

test('a reader that was gone before its turn came gets no place', async () => {
  const serving = await Serving.start()
  const socket = serving.connect()
  socket.end('GET / HTTP/1.1\r\nHost: x\r\n\r\n')
  await new Promise((resolve) => socket.resume().once('close', resolve))
  expect(serving.places).toBe(0)
})

test('streams end behind everything that was to be sent, and one that comes later ends at once', async () => {
  const serving = await Serving.start()
  const res = await serving.read()
  const read = textOf(res)
  serving.streams.deliver(BATCH, () => {})
  serving.streams.deliver(BATCH, () => {})
  serving.streams.end()
  await until(() => res.complete)
  expect(read.text.split('event: reject\n')).toHaveLength(201)
  const late = await serving.read()
  late.resume()
  await until(() => late.complete)
})

test('a reader whose session has ended is cut off, and gives its place back', async () => {
  const serving = await Serving.start(20)
  const reading = await serving.read()
  reading.on('error', () => {}).resume()
  await until(() => serving.places === 1)
  serving.isAllowed = false
  await until(() => reading.closed && serving.places === 0)
})

function numbered(from: number, count: number, name = 'reject', filler = ''): PublishedEvent[] {
  return Array.from({ length: count }, (_, i) => ({ name, line: JSON.stringify({ i: from + i, filler }), number: from + i }))
}

function numbersIn(text: string): number[] {
  return [...text.matchAll(/"i":(\d+)/g)].map(([, i]) => Number(i))
}

test('kept events come first, then what happens, with neither a gap nor a repetition', async () => {
  const serving = await Serving.start()
  const asked: EventsAsk[] = []
  let answer: (page: EventsPage) => void = () => {}
  serving.wish = { kept: { sinceMs: 5 } }
  serving.page = (ask) => {
    asked.push(ask)
    return new Promise((resolve) => {
      answer = resolve
    })
  }
  const read = textOf(await serving.read())
  await until(() => asked.length === 1)
  // They are kept, too, and come with a page.
  serving.streams.deliver(numbered(1, 6), () => {})
  answer({ events: numbered(1, 4), last: 4, isEnd: false })
  await until(() => asked.length === 2)
  // These were on their way when the last page was made, and one happened after it.
  serving.streams.deliver(numbered(5, 4), () => {})
  answer({ events: numbered(5, 3), last: 7, isEnd: true })
  serving.streams.deliver(numbered(9, 2), () => {})
  await until(() => numbersIn(read.text).includes(10))
  expect(numbersIn(read.text)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10])
  expect(asked).toEqual([{ sinceMs: 5 }, { sinceMs: 5, after: 4 }])
  expect(read.text).toContain('\nid: 10\n\n')
})

test('a reader that stalls gets no further page of kept events, and is cut off', async () => {
  const serving = await Serving.start(20)
  let pages = 0
  serving.wish = { kept: {} }
  serving.page = () => ({ events: numbered(1000 * ++pages, 100, 'reject', 'x'.repeat(1000)), last: 1000 * pages + 99, isEnd: false })
  const res = await serving.read()
  res.on('error', () => {})
  await until(() => serving.places === 0)
  const atEnd = pages
  await new Promise((resolve) => setImmediate(resolve))
  expect(pages).toBe(atEnd)
})

test('readers that leave, or whose stream ends, while kept events are fetched for them get nothing more', async () => {
  const serving = await Serving.start()
  const answers: ((page: EventsPage) => void)[] = []
  serving.wish = { kept: {} }
  serving.page = () => new Promise((resolve) => void answers.push(resolve))
  const [gone, ended] = [await serving.read(), await serving.read()]
  await until(() => answers.length === 2)
  gone.on('error', () => {}).destroy()
  await until(() => serving.places === 1)
  const read = textOf(ended)
  serving.streams.end()
  for (const answer of answers) answer({ events: numbered(1, 3), last: 3, isEnd: false })
  await until(() => ended.complete)
  expect(numbersIn(read.text)).toEqual([])
  expect(answers).toHaveLength(2)
})

test('a reader whose kept events cannot be fetched is cut off', async () => {
  const serving = await Serving.start()
  serving.wish = { kept: {} }
  serving.page = () => Promise.reject(new Error('the main thread is slow'))
  const socket = serving.connect()
  socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n')
  await new Promise((resolve) =>
    socket
      .resume()
      .once('close', resolve)
      .once('end', () => socket.end()),
  )
  await until(() => serving.places === 0)
})
