import { connect } from 'node:net'
import { describe, expect, test } from 'vitest'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { sized } from '../../support/run/property-runs.ts'
import type { Edge } from '../../support/service/edge.ts'
import { ask, exchange, type Fields } from '../../support/service/http.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { running } from '../../support/service/running.ts'
import { decisionBytes, original, readAnswers } from '../../support/service/wire.ts'
import { until } from '../../support/until.ts'

/** Many times what is read at once. */
const LARGE_MB = sized(2, 10)
const LAST = decisionBytes(original('/'), { isLast: true })

describe('a body on /v1/decision', () => {
  test.each([
    ['empty', 0],
    ['small', 20],
    [`of ${LARGE_MB} MB`, LARGE_MB * 1024 * 1024],
  ])('%s: is passed over, and the connection goes on with the next question', async (_what, size) => {
    const edge = await start(10)
    const fields = original('/', ['Content-Length', String(size)], ['Content-Type', 'application/json'])
    const answers = await talk(edge, [decisionBytes(fields), Buffer.alloc(size, 'x'), decisionBytes(fields), Buffer.alloc(size, 'y'), LAST])
    expect(answers).toEqual([200, 200, 200])
    expect(await remaining(edge)).toBe(6)
  })

  test('in chunks: is passed over, and the connection goes on', async () => {
    const edge = await start(10)
    const fields = original('/', ['Transfer-Encoding', 'chunked'])
    const body = `5\r\nhello\r\n1f4;extension=1\r\n${'z'.repeat(500)}\r\n0\r\nTrailer: x\r\n\r\n`
    expect(await talk(edge, [decisionBytes(fields), body, decisionBytes(fields), body, LAST])).toEqual([200, 200, 200])
    expect(await remaining(edge)).toBe(6)
  })

  test('that looks like a question is none', async () => {
    const edge = await start(10)
    const smuggled = decisionBytes(original('/'))
    const fields = original('/', ['Content-Length', String(smuggled.length)])
    expect(await talk(edge, [decisionBytes(fields), smuggled, LAST])).toEqual([200, 200])
    expect(await remaining(edge)).toBe(7)
  })

  test('is not waited for: the answer comes while it is still under way', async () => {
    const edge = await start(10)
    const socket = connect(edge.port, '127.0.0.1')
    let received = ''
    socket.on('data', (chunk) => {
      received += chunk.toString('latin1')
    })
    socket.write(decisionBytes(original('/', ['Content-Length', '1000'])))
    await until(() => received.includes('\r\n\r\n'))
    expect(readAnswers(received).map(({ status }) => status)).toEqual([200])
    socket.destroy()
  })

  test('rejected requests pass over theirs too', async () => {
    const edge = await start(1)
    const fields = original('/', ['Content-Length', '5'])
    expect(await talk(edge, [decisionBytes(fields), 'hello', decisionBytes(fields), 'hello', LAST])).toEqual([200, 429, 429])
  })

  test('announced with Expect: 100-continue is not invited; the decision comes at once', async () => {
    const edge = await start(10)
    const fields = original('/', ['Content-Length', '1000000'], ['Expect', '100-continue'])
    const received = await exchange(edge.port, decisionBytes(fields))
    const answers = readAnswers(received)
    expect(answers.map(({ status }) => status)).toEqual([200])
    expect(answers[0]!.headers).toMatchObject({ connection: 'close', 'ratelimit-remaining': '9' })
  })

  test('sent with the usual client is answered', async () => {
    const edge = await start(10)
    const answer = await ask(edge.port, 'POST', '/v1/decision', original('/'), '{"stream":true}')
    expect(answer).toMatchObject({ status: 200, body: '', headers: { 'content-length': '0' } })
  })
})

describe('pipelined questions', () => {
  test('in one write are answered in their order, each charged once', async () => {
    const edge = await start(30)
    const questions = Array.from({ length: 50 }, () => decisionBytes(original('/')))
    const received = await exchange(edge.port, Buffer.concat([...questions, LAST]))
    const answers = readAnswers(received)
    expect(answers.map(({ status }) => status)).toEqual([...Array(30).fill(200), ...Array(21).fill(429)])
    expect(answers.slice(0, 30).map(({ headers }) => Number(headers['ratelimit-remaining']))).toEqual(
      Array.from({ length: 30 }, (_, i) => 29 - i),
    )
  })

  test('byte by byte are answered like those in one write', async () => {
    const edge = await start(2)
    const bytes = Buffer.concat([decisionBytes(original('/')), decisionBytes(original('/')), LAST])
    const socket = connect(edge.port, '127.0.0.1').setNoDelay(true)
    let received = ''
    socket.on('data', (chunk) => {
      received += chunk.toString('latin1')
    })
    for (const byte of bytes) await new Promise<void>((resolve) => socket.write(Buffer.of(byte), () => resolve()))
    await new Promise((resolve) => socket.on('close', resolve))
    expect(readAnswers(received).map(({ status }) => status)).toEqual([200, 200, 429])
  })

  test('of all kinds keep their order', async () => {
    const edge = await start(1)
    const other = (line: string): Buffer => Buffer.from(`${line} HTTP/1.1\r\nHost: edge\r\n\r\n`)
    const received = await exchange(
      edge.port,
      Buffer.concat([
        decisionBytes([]),
        decisionBytes(original('/')),
        other('GET /v1/decision'),
        other('HEAD /livez'),
        other('PUT /nowhere'),
        LAST,
      ]),
    )
    expect(received.match(/HTTP\/1\.1 \d{3}/g)!.map((line) => Number(line.slice(-3)))).toEqual([400, 200, 405, 200, 404, 429])
  })
})

function start(burst: number): Promise<Edge> {
  return running({ bundle: bundle(1, policy('p', { rules: [bucketRule('r', [], burst)] })), clock: new ManualClock() })
}

async function talk(edge: Edge, parts: readonly (Buffer | string)[]): Promise<number[]> {
  const received = await exchange(edge.port, Buffer.concat(parts.map((part) => Buffer.from(part))))
  return readAnswers(received).map(({ status }) => status)
}

async function remaining(edge: Edge, fields: Fields = []): Promise<number> {
  return Number((await edge.decide({ fields })).headers['ratelimit-remaining'])
}
