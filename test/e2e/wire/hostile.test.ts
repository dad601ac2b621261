import { readdir, readFile, writeFile } from 'node:fs/promises'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { RawClient } from '../../support/proxy/proxy.ts'
import type { Cli } from '../../support/service/cli.ts'
import { ask } from '../../support/service/http.ts'
import { Load } from '../../support/service/load.ts'
import { scratchDirectory, serving } from '../../support/service/running.ts'
import { decisionBytes, original, readAnswers } from '../../support/service/wire.ts'
import { until } from '../../support/until.ts'

const QUESTION = decisionBytes(original('/'))
const ENDLESS = 'POST /v1/decision HTTP/1.1\r\nX-A: '

describe('10,000 idle connections', () => {
  test('cost some KiB each, and others are served as before', async () => {
    const cli = await serve()
    const before = await memoryKib(cli, 'VmRSS')
    const files = await openFiles(cli)
    const sockets = await openMany(cli.port, 10_000)
    // Half of them have asked once, so that both kinds of idleness are there.
    let answered = 0
    for (const socket of sockets.slice(0, 5000)) {
      socket.once('data', () => answered++)
      socket.write(QUESTION)
    }
    await until(() => answered === 5000)
    expect(await answersUnderLoad(cli, 300)).toEqual([200])
    const perConnectionKib = ((await memoryKib(cli, 'VmRSS')) - before) / sockets.length
    expect(perConnectionKib).toBeLessThan(20)
    // They are still there, and still served.
    answered = 0
    for (const socket of sockets) {
      socket.once('data', () => answered++)
      socket.write(QUESTION)
    }
    await until(() => answered === sockets.length)
    for (const socket of sockets) socket.destroy()
    await until(async () => (await openFiles(cli)) <= files)
  }, 120_000)
})

describe('a client that asks without end and never reads', () => {
  test('is not read from any more, costs little, and others are served; when it reads at last, nothing is missing', async () => {
    const cli = await serve()
    const before = await memoryKib(cli, 'VmHWM')
    const greedy = await askUntilStalled(cli)
    expect(await answersUnderLoad(cli, 300)).toEqual([200])
    expect((await memoryKib(cli, 'VmHWM')) - before).toBeLessThan(64 * 1024)

    const remaining = remainingTokens(greedy.socket)
    greedy.readOn()
    greedy.socket.end()
    await new Promise((resolve) => greedy.socket.once('close', resolve))
    expect(remaining).toHaveLength(greedy.questions)
    expect(remaining.every((tokens, i) => i === 0 || tokens < remaining[i - 1]!)).toBe(true)
  }, 60_000)

  test('is cut off when it does not read for as long as a connection may be idle', async () => {
    const cli = await serve({ EDGE_KEEPALIVE_MS: '500' })
    const before = await openFiles(cli)
    const greedy = await askUntilStalled(cli)
    await until(async () => (await openFiles(cli)) <= before)
    greedy.readOn()
    await until(() => greedy.socket.destroyed)
    expect((await ask(cli.port, 'GET', '/livez')).status).toBe(200)
  }, 60_000)
})

test('slowloris: heads that drip in byte by byte are cut in time, and others are served meanwhile', async () => {
  const cli = await serve({ EDGE_HEADERS_TIMEOUT_MS: '1500' })
  const before = await openFiles(cli)
  const sockets = await openMany(cli.port, 500)
  const received: string[] = sockets.map(() => '')
  let closed = 0
  let dripped = 0
  sockets.forEach((socket, i) => {
    socket.on('data', (chunk) => {
      received[i] += chunk.toString('latin1')
    })
    socket.on('close', () => closed++)
  })
  const drip = setInterval(() => {
    for (const socket of sockets) if (socket.writable) socket.write(ENDLESS[dripped] ?? 'x')
    dripped++
  }, 20)
  onTestFinished(() => clearInterval(drip))
  expect(await answersUnderLoad(cli, 300)).toEqual([200])
  await until(() => closed === sockets.length)
  // Where a byte crosses the answer on its way, the client may see no more than a reset.
  const answers = received.filter((text) => text !== '')
  expect(new Set(answers.map((text) => text.slice(0, 12)))).toEqual(new Set(['HTTP/1.1 408']))
  expect(answers.length).toBeGreaterThan(sockets.length / 2)
  await until(async () => (await openFiles(cli)) <= before)
}, 60_000)

describe('a client that ends its side', () => {
  test('after its questions gets all its answers', async () => {
    const cli = await serve()
    const client = RawClient.connect(cli.port)
    client.send(Buffer.concat(Array(500).fill(QUESTION)))
    client.socket.end()
    const received = await client.closed()
    expect(readAnswers(received).map(({ status }) => status)).toEqual(Array(500).fill(200))
    expect(client.hasEnded).toBe(true)
  })

  test('in the middle of a head gets 400, and none without one', async () => {
    const cli = await serve()
    for (const [bytes, answer] of [
      ['', ''],
      [QUESTION.toString('latin1').slice(0, 50), 'HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n'],
    ] as const) {
      const client = RawClient.connect(cli.port)
      client.send(bytes)
      client.socket.end()
      expect(await client.closed()).toBe(answer)
    }
  })
})

test('clients that reset in the middle of their answers leave nothing behind, and others are served meanwhile', async () => {
  const cli = await serve()
  const before = await openFiles(cli)
  const many = Buffer.concat(Array(400).fill(QUESTION))
  const load = new Load(cli.port, original('/'), 4)
  for (let round = 0; round < 20; round++) {
    const sockets = await openMany(cli.port, 20)
    await Promise.all(
      sockets.map(
        (socket, i) =>
          new Promise((resolve) => {
            socket.once('close', resolve)
            socket.write(many)
            // Some at once, some with the first bytes of their answers in hand.
            if (i % 4 === 0) socket.resetAndDestroy()
            else socket.once('data', () => socket.resetAndDestroy())
          }),
      ),
    )
  }
  await load.stop()
  expect(load.errors).toEqual([])
  expect([...load.statuses.keys()]).toEqual([200])
  await until(async () => (await openFiles(cli)) <= before)
  expect(cli.log.filter(({ level }) => level === 'error' || level === 'fatal')).toEqual([])
}, 60_000)

async function serve(env: Readonly<Record<string, string>> = {}): Promise<Cli> {
  const path = join(await scratchDirectory(), 'bundle.json')
  await writeFile(path, JSON.stringify(bundle(1, policy('p', { rules: [bucketRule('r', [], 1e9, 1e-9)] }))))
  const cli = await serving({ EDGE_CONFIG_FILE: path, EDGE_STORE_SIZE: '1m', ...env })
  // What a process needs for its first requests is nobody's in particular.
  await answersUnderLoad(cli, 500)
  return cli
}

async function openMany(port: number, count: number): Promise<Socket[]> {
  const sockets: Socket[] = []
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy()
  })
  while (sockets.length < count) {
    // No more at once than a listener's queue holds.
    const batch = Array.from({ length: Math.min(200, count - sockets.length) }, () => connect(port, '127.0.0.1'))
    for (const socket of batch) socket.on('error', () => {}) // being cut may look like a reset
    sockets.push(...batch)
    await Promise.all(batch.map((socket) => new Promise((resolve) => socket.once('connect', resolve))))
  }
  return sockets
}

/** The statuses that other clients get meanwhile, each once. */
async function answersUnderLoad(cli: Cli, count: number): Promise<number[]> {
  const load = new Load(cli.port, original('/'), 4)
  await until(() => load.total >= count || load.errors.length > 0)
  await load.stop()
  expect(load.errors).toEqual([])
  return [...load.statuses.keys()]
}

/** Asks and does not read until the server has stopped reading, too. */
async function askUntilStalled(cli: Cli): Promise<GreedyClient> {
  const greedy = new GreedyClient(cli)
  let asked: number
  do {
    asked = greedy.questions
    // The server has every chance to read on.
    for (let turns = 0; turns < 100; turns++) await ask(cli.port, 'GET', '/livez')
  } while (greedy.questions > asked)
  return greedy
}

/** Asks as fast as it can, and reads nothing until it is told to. */
class GreedyClient {
  readonly socket: Socket
  questions = 0

  constructor({ port }: Cli) {
    this.socket = connect(port, '127.0.0.1')
    onTestFinished(() => void this.socket.destroy())
    this.socket.on('error', () => {}) // it may be cut
    this.socket.pause()
    const batch = Buffer.concat(Array(100).fill(QUESTION))
    const askOn = (): void => {
      do this.questions += 100
      while (this.socket.write(batch))
    }
    this.socket.on('drain', askOn)
    askOn()
  }

  /** Asks nothing more, and reads. */
  readOn(): void {
    this.socket.removeAllListeners('drain')
    this.socket.resume()
  }
}

/** What each answer says is left, as they come. */
function remainingTokens(socket: Socket): number[] {
  const remaining: number[] = []
  let rest = ''
  socket.on('data', (chunk) => {
    const answers = (rest + chunk.toString('latin1')).split('\r\n\r\n')
    rest = answers.pop()!
    for (const answer of answers) remaining.push(Number(/RateLimit-Remaining: (\d+)/.exec(answer)![1]))
  })
  return remaining
}

async function memoryKib(cli: Cli, line: 'VmRSS' | 'VmHWM'): Promise<number> {
  const status = await readFile(`/proc/${cli.process.pid}/status`, 'utf8')
  return Number(new RegExp(`^${line}:\\s+(\\d+) kB$`, 'm').exec(status)![1])
}

/** Connections among them. */
async function openFiles(cli: Cli): Promise<number> {
  return (await readdir(`/proc/${cli.process.pid}/fd`)).length
}
