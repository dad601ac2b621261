import { brotliCompressSync, constants as zlib } from 'node:zlib'
import { describe, expect, test } from 'vitest'
import { CHAT, HELLO, type LlmProxy } from '../../support/llm/llm-proxy.ts'
import { BY_USER, bodyOf, bounded, by, chunk, KIB, stopping, untilHeld, WAIT_MS } from '../../support/llm/short-body-memory.ts'
import { RawClient, statusesIn } from '../../support/proxy/proxy.ts'
import { type Answer, ask, type Fields } from '../../support/service/http.ts'
import { until } from '../../support/until.ts'

/** 512 KiB are for small bodies; of the other 3.5 MiB a share has 896 KiB. */
const MEMORY = { EDGE_BODY_MEMORY: '4m', EDGE_MAX_BODY_BYTES: '256k' }
const BODY = 256 * KIB
const SHARE = 896 * KIB

describe("a caller's share of the memory for bodies", () => {
  test('is all that it takes: its further uploads wait, and those of others pass', async () => {
    const proxy = await bounded(MEMORY, BY_USER)
    const uploads = Array.from({ length: 16 }, () => upload(proxy, by('mallory')))
    await untilHeld(proxy, 3 * BODY, 13)
    for (const user of ['alice', 'bob']) {
      expect((await proxy.post(CHAT, bodyOf(KIB), by(user))).status).toBe(200)
      expect((await proxy.post(CHAT, bodyOf(BODY), by(user))).status).toBe(200)
    }
    await untilHeld(proxy, 3 * BODY, 13)
    expect(uploads.every(({ received }) => received === '')).toBe(true)
  })

  test('is that of the address where no limit key tells callers apart', async () => {
    const proxy = await bounded(MEMORY)
    const from = (address: string): Fields => [['X-Forwarded-For', address]]
    for (let i = 0; i < 4; i++) upload(proxy, from('203.0.113.1'))
    await untilHeld(proxy, 3 * BODY, 1)
    expect((await proxy.post(CHAT, bodyOf(BODY), from('203.0.113.2'))).status).toBe(200)
    await untilHeld(proxy, 3 * BODY, 1)
  })

  test('cannot be multiplied with made-up keys: an address has no more than two', async () => {
    const proxy = await bounded(MEMORY, BY_USER)
    const from = (address: string, user: string): Fields => [['X-Forwarded-For', address], ...by(user)]
    for (let i = 0; i < 8; i++) upload(proxy, from('203.0.113.1', `made-up-${i}`))
    await untilHeld(proxy, 2 * SHARE, 1)
    expect((await proxy.post(CHAT, bodyOf(BODY), from('203.0.113.2', 'alice'))).status).toBe(200)
    // A proxy that forwards for nobody may stand for many.
    expect((await proxy.post(CHAT, bodyOf(BODY), by('bob'))).status).toBe(200)
    await untilHeld(proxy, 2 * SHARE, 1)
  })

  test('that stopped uploads hold goes to the next of the same caller; a stopped upload of another is left alone', async () => {
    const proxy = await bounded(MEMORY, BY_USER)
    const others = upload(proxy, by('alice'))
    const stopped = Array.from({ length: 3 }, () => upload(proxy, by('mallory')))
    await untilHeld(proxy, 4 * BODY, 0)
    const next = proxy.post(CHAT, bodyOf(BODY), by('mallory'))
    await untilHeld(proxy, 4 * BODY, 1)
    proxy.clock.advance(6000)
    expect((await next).status).toBe(200)
    expect(stopped.map(({ received }) => statusesIn(received)).sort()).toEqual([[], [], [408]])
    expect(others.received).toBe('')
  })

  test('counts what a decoder holds: a few bytes of Brotli can fill a window of 16 MiB', async () => {
    const proxy = await bounded(MEMORY, BY_USER)
    const params = { [zlib.BROTLI_PARAM_LGWIN]: zlib.BROTLI_MAX_WINDOW_BITS }
    const packed = brotliCompressSync(JSON.stringify({ messages: HELLO }), { params })
    const post = (user: string): Promise<Answer> => ask(proxy.port, 'POST', CHAT, [['Content-Encoding', 'br'], ...by(user)], packed)
    const uploads = Array.from({ length: 3 }, () => upload(proxy, by('mallory')))
    await untilHeld(proxy, 3 * BODY, 0)
    const waiting = post('mallory')
    // Its own few bytes are in the part for small bodies.
    await untilHeld(proxy, 3 * BODY + KIB, 1)
    expect((await post('alice')).status).toBe(200)
    uploads[0]!.socket.destroy()
    expect((await waiting).status).toBe(200)
    await untilHeld(proxy, 2 * BODY, 0)
  })

  test('that does not become free in time is a 503', async () => {
    const { proxy, seen, answer } = await beforeLateBackend({ EDGE_BODY_MEMORY: '2m', EDGE_MAX_BODY_BYTES: '1m' })
    await ask(proxy.port, 'PUT', '/first', [], bodyOf(KIB))
    const held = ask(proxy.port, 'PUT', CHAT, by('mallory'), bodyOf(1024 * KIB))
    await until(() => seen.length === 2)
    const late = proxy.post(CHAT, bodyOf(100 * KIB), by('mallory'))
    await untilHeld(proxy, 1024 * KIB, 1)
    proxy.clock.advance(WAIT_MS)
    const { status, headers } = await late
    expect([status, headers['x-edge-reason'], headers['retry-after']]).toEqual([503, 'body_memory_exhausted', '1'])
    answer()
    expect((await held).status).toBe(200)
  })
})

describe('a part of the memory is for small bodies', () => {
  test('which pass while all the rest is taken, of known length or not', async () => {
    const proxy = await bounded(MEMORY, BY_USER)
    for (const user of ['a', 'b', 'c', 'd']) {
      for (let i = 0; i < 3; i++) upload(proxy, by(user))
      stopping(proxy, SHARE - 3 * BODY, 1, CHAT, by(user))
    }
    await untilHeld(proxy, 4 * SHARE, 0)
    expect((await proxy.post(CHAT, bodyOf(64 * KIB), by('alice'))).status).toBe(200)
    expect((await proxy.post(CHAT, bodyOf(64 * KIB), by('a'))).status).toBe(200)
    const chunked = RawClient.connect(proxy.port)
    chunked.send(`POST ${CHAT} HTTP/1.1\r\nHost: a\r\nX-User: bob\r\nTransfer-Encoding: chunked\r\n\r\n${chunk(bodyOf(KIB))}0\r\n\r\n`)
    await chunked.sees('hello')
    const large = upload(proxy, by('alice'))
    await untilHeld(proxy, 4 * SHARE, 1)
    expect(large.received).toBe('')
  })
})

describe('a body is let go of', () => {
  test('when a POST is written, though the backend takes its time: nobody has to wait for its answer', async () => {
    const { proxy, seen, answer } = await beforeLateBackend()
    const answers = Array.from({ length: 16 }, () => proxy.post(CHAT, bodyOf(BODY), by('mallory')))
    await until(() => seen.length === 16)
    await untilHeld(proxy, 0, 0)
    for (const user of ['alice', 'bob']) expect((await proxy.post('/first', bodyOf(BODY), by(user))).status).toBe(200)
    answer()
    expect((await Promise.all(answers)).map(({ status }) => status)).toEqual(answers.map(() => 200))
  })

  test('not before the backend has taken it, though it has begun to answer', async () => {
    // More than the system takes on its way.
    const size = 16 * 1024 * KIB
    let readOn = (): void => {}
    const proxy = await bounded({ EDGE_BODY_MEMORY: '64m', EDGE_MAX_BODY_BYTES: '16m' }, BY_USER, (req, res) => {
      res.write('begun')
      readOn = () => void req.resume().on('end', () => res.end('ended'))
    })
    const client = stopping(proxy, size, size)
    await client.sees('begun')
    await untilHeld(proxy, size, 0)
    readOn()
    await client.sees('ended')
    await untilHeld(proxy, 0, 0)
  })

  test.each([KIB, BODY])(
    'when the answer comes, where it may have to be sent again: a PUT of %d bytes on a used connection',
    async (size) => {
      const { proxy, seen, answer } = await beforeLateBackend()
      // On a new connection it is not sent again.
      const fresh = ask(proxy.port, 'PUT', CHAT, [], bodyOf(size))
      await until(() => seen.length === 1)
      await untilHeld(proxy, 0, 0)
      answer()
      await fresh
      const used = ask(proxy.port, 'PUT', CHAT, [], bodyOf(size))
      await until(() => seen.length === 2)
      await untilHeld(proxy, size, 0)
      answer()
      expect((await used).status).toBe(200)
      await untilHeld(proxy, 0, 0)
    },
  )
})

describe('white space around the JSON of a request', () => {
  const json = JSON.stringify({ messages: HELLO })

  test('is free up to 64 KiB', async () => {
    const proxy = await bounded(MEMORY)
    const padding = ' '.repeat(32 * KIB)
    expect((await proxy.post(CHAT, padding + json + padding)).status).toBe(200)
  })

  test.each([
    ['before', ' '.repeat(64 * KIB + 1), ''],
    ['behind', '', '\n'.repeat(64 * KIB + 1)],
    ['on both sides', '\t'.repeat(32 * KIB), '\r\n'.repeat(16 * KIB + 1)],
  ])('is 413 beyond: %s, in one piece or in chunks', async (_, before, behind) => {
    const proxy = await bounded(MEMORY)
    const body = before + json + behind
    const whole = await proxy.post(CHAT, body)
    expect([whole.status, whole.headers['x-edge-reason']]).toEqual([413, 'body_too_large'])
    const client = RawClient.connect(proxy.port)
    client.send(`POST ${CHAT} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n`)
    for (let at = 0; at < body.length; at += 10_000) client.send(chunk(body.slice(at, at + 10_000)))
    client.send('0\r\n\r\n')
    await client.sees('body_too_large')
    expect((await proxy.spent()).day).toBe(0)
    await untilHeld(proxy, 0, 0)
  })

  test('is not meant inside it', async () => {
    const proxy = await bounded(MEMORY)
    expect((await proxy.post(CHAT, json.replaceAll(':', `:${' '.repeat(50 * KIB)}`))).status).toBe(200)
  })
})

/** An upload that lacks its last byte. */
function upload(proxy: LlmProxy, fields: Fields): RawClient {
  return stopping(proxy, BODY, BODY - 1, CHAT, fields)
}

/** The edge before a backend that reads everything, and answers /first at once and all else when it is told to. */
async function beforeLateBackend(env = MEMORY): Promise<{ proxy: LlmProxy; seen: string[]; answer: () => void }> {
  const seen: string[] = []
  const late: (() => void)[] = []
  const proxy = await bounded(env, BY_USER, async (req, res, request) => {
    const { length } = await request.body()
    seen.push(`${req.method} ${length}`)
    if (req.url === '/first') res.end('hello')
    else late.push(() => void res.end('hello'))
  })
  const answer = (): void => {
    for (const end of late.splice(0)) end()
  }
  return { proxy, seen, answer }
}
