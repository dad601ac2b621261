import { connect, type Socket } from 'node:net'
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { bucketRule, bundle, policy } from '../support/bundles/bundles.ts'
import { RawClient } from '../support/proxy/proxy.ts'
import type { Cli } from '../support/service/cli.ts'
import { answersUnderLoad, idleConnectionsSuite, openMany, unlimited } from '../support/service/crowds.ts'
import { ask } from '../support/service/http.ts'
import { Load } from '../support/service/load.ts'
import { describeWithProc, memoryKib, openFiles } from '../support/service/process-facts.ts'
import { type Environment, running } from '../support/service/running.ts'
import { thisSuite } from '../support/service/suite-owner.ts'
import { decisionBytes, original, readAnswers } from '../support/service/wire.ts'
import { until } from '../support/until.ts'

const QUESTION = decisionBytes(original('/'))
const ENDLESS = 'POST /v1/decision HTTP/1.1\r\nX-A: '

// 10,000 of them: test/campaigns/idle-connections.test.ts
idleConnectionsSuite(600)

describeWithProc('a client', () => {
  const served = serveAll()

  test('who asks without end and never reads is not read from any more, costs little, and others are served; when it reads at last, nothing is missing', async () => {
    const { cli } = served
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
  })

  test('who resets in the middle of its answers, again and again, leaves nothing behind, and others are served meanwhile', async () => {
    const { cli, files } = served
    const many = Buffer.concat(Array(400).fill(QUESTION))
    const load = new Load(cli.port, original('/'), 4)
    for (let round = 0; round < 8; round++) {
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
    await until(async () => (await openFiles(cli)) <= files)
    expect(cli.log.filter(({ level }) => level === 'error' || level === 'fatal')).toEqual([])
  })
})

describeWithProc('with short timeouts, a client', () => {
  // Longer than a busy machine keeps one of the others from its next request.
  const served = serveAll({ EDGE_KEEPALIVE_MS: '10000', EDGE_HEADERS_TIMEOUT_MS: '10000' })

  test('who asks without end and never reads is cut off when it does not read for as long as a connection may be idle', async () => {
    const { cli, files } = served
    const greedy = await askUntilStalled(cli)
    await until(async () => (await openFiles(cli)) <= files)
    greedy.readOn()
    await until(() => greedy.socket.destroyed)
    expect((await ask(cli.port, 'GET', '/livez')).status).toBe(200)
  })

  test('whose head drips in byte by byte (slowloris) is cut in time, and others are served meanwhile', async () => {
    const { cli, files } = served
    const sockets = await openMany(cli.port, 200)
    const received: string[] = sockets.map(() => '')
    const failed = sockets.map(() => false)
    let closed = 0
    let dripped = 0
    sockets.forEach((socket, i) => {
      socket.on('data', (chunk) => {
        received[i] += chunk.toString('latin1')
      })
      socket.on('error', () => {
        failed[i] = true
      })
      socket.on('close', () => closed++)
    })
    // The first stops after some bytes: nothing crosses the answer to it.
    sockets[0]!.write(ENDLESS)
    const drip = setInterval(() => {
      for (const socket of sockets.slice(1)) if (socket.writable) socket.write(ENDLESS[dripped] ?? 'x')
      dripped++
    }, 200)
    onTestFinished(() => clearInterval(drip))
    expect(await answersUnderLoad(cli, 300)).toEqual([200])
    await until(() => closed === sockets.length)
    const answers = received.map((text) => text.slice(0, 12))
    expect(answers[0]).toBe('HTTP/1.1 408')
    // Where a byte crosses the answer on its way, the client may see no more than a reset.
    for (const [i, answer] of answers.entries())
      expect([answer, failed[i]]).toEqual(answer === '' ? ['', true] : ['HTTP/1.1 408', failed[i]])
    await until(async () => (await openFiles(cli)) <= files)
  })
})

describe('a client that ends its side', () => {
  test('after its questions gets all its answers', async () => {
    const edge = await running({ bundle: bundle(1, policy('p', { rules: [bucketRule('r', [], 1e9, 1e-9)] })) })
    const client = RawClient.connect(edge.port)
    client.send(Buffer.concat(Array(500).fill(QUESTION)))
    client.socket.end()
    const received = await client.closed()
    expect(readAnswers(received).map(({ status }) => status)).toEqual(Array(500).fill(200))
    expect(client.hasEnded).toBe(true)
  })

  test('in the middle of a head gets 400, and none without one', async () => {
    const edge = await running({ bundle: bundle(1, policy('p', { rules: [bucketRule('r', [], 1e9, 1e-9)] })) })
    for (const [bytes, answer] of [
      ['', ''],
      [QUESTION.toString('latin1').slice(0, 50), 'HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n'],
    ] as const) {
      const client = RawClient.connect(edge.port)
      client.send(bytes)
      client.socket.end()
      expect(await client.closed()).toBe(answer)
    }
  })
})

interface Served {
  cli: Cli
  /** Open before anybody came. */
  files: number
}

/** One process for all tests of a `describe`. */
function serveAll(env: Environment = {}): Served {
  const suite = thisSuite()
  const served = {} as Served
  beforeAll(async () => {
    served.cli = await unlimited(env, suite)
    served.files = await openFiles(served.cli)
  })
  return served
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
