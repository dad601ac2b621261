import { describe, expect, test } from 'vitest'
import { CHAT, HELLO_TOKENS } from '../../support/llm/llm-proxy.ts'
import {
  BODY,
  BY_USER,
  bodyOf,
  bounded,
  by,
  chunk,
  KIB,
  keepingBodies,
  PART,
  SILENCE_MS,
  stopping,
  untilHeld,
  untilRead,
  WAIT_MS,
} from '../../support/llm/short-body-memory.ts'
import { RawClient } from '../../support/proxy/proxy.ts'
import { until } from '../../support/until.ts'

describe('where EDGE_BODY_MEMORY is short', () => {
  test('uploads that stop end with 408, others get through, and those that waited in vain get 503; none of them takes a token', async () => {
    const usage = JSON.stringify({ usage: { total_tokens: HELLO_TOKENS } })
    // Of 600 KiB, 525 are for bodies of any size.
    const proxy = await bounded({ EDGE_BODY_MEMORY: '600k', EDGE_MAX_BODY_BYTES: '128k' }, BY_USER, (_req, res) => void res.end(usage))
    const clients = Array.from({ length: 12 }, (_, i) => stopping(proxy, BODY, PART, CHAT, by(`user${i}`)))
    await untilHeld(proxy, 4 * BODY, 8)
    const smaller = proxy.post(CHAT, bodyOf(100 * KIB), by('alice'))
    await untilHeld(proxy, 4 * BODY, 9)
    await untilRead(proxy, clients)

    proxy.clock.advance(SILENCE_MS)
    expect((await smaller).status).toBe(200)
    // Four of those that waited bring what they have, and four wait on.
    await untilHeld(proxy, 4 * BODY, 4)
    await untilRead(proxy, clients)
    proxy.clock.advance(WAIT_MS - SILENCE_MS)
    await until(() => clients.filter(({ received }) => received !== '').length === 8)
    const refused = clients.map(({ received }) => received).filter((received) => received !== '')
    expect(refused.filter((text) => text.startsWith('HTTP/1.1 408 Request Timeout') && text.includes('upload_too_slow'))).toHaveLength(4)
    const exhausted = refused.filter((text) => text.startsWith('HTTP/1.1 503'))
    expect(exhausted).toHaveLength(4)
    for (const text of exhausted) {
      expect(text).toMatch(/\r\nRetry-After: 1\r\n/)
      expect(text).toMatch(/\r\nX-Edge-Reason: body_memory_exhausted\r\n/)
    }
    for (const text of refused) expect(text).toMatch(/\r\nConnection: close\r\n/)

    for (const client of clients) if (client.received === '') client.send(bodyOf(BODY).slice(PART))
    await until(() => clients.every(({ received }) => received !== ''))
    expect(clients.filter(({ received }) => received.startsWith('HTTP/1.1 200'))).toHaveLength(4)
    expect((await proxy.spent()).day).toBe(5 * HELLO_TOKENS)
    await untilHeld(proxy, 0, 0)
    expect(await proxy.edge.metric('edge_refused_requests_total{reason="upload_too_slow"}')).toBe(4)
    expect(await proxy.edge.metric('edge_refused_requests_total{reason="body_memory_exhausted"}')).toBe(4)
  })
})

describe('a budget in shadow mode', () => {
  const shadow = { mode: 'shadow' } as const

  test('costs no request its body: without memory it passes unread', async () => {
    const seen: Buffer[] = []
    const proxy = await bounded({ EDGE_BODY_MEMORY: '100k', EDGE_MAX_BODY_BYTES: '100k' }, shadow, keepingBodies(seen))
    const holder = stopping(proxy, 100 * KIB, 1)
    await untilHeld(proxy, 100 * KIB, 0)
    const body = bodyOf(90 * KIB)
    expect((await proxy.post(CHAT, body)).status).toBe(200)
    const chunked = RawClient.connect(proxy.port)
    chunked.send(`POST ${CHAT} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n${chunk(body)}0\r\n\r\n`)
    await chunked.sees('hello')
    expect(seen.map((bytes) => bytes.equals(Buffer.from(body)))).toEqual([true, true])
    expect(holder.received).toBe('')
  })
})

describe('at rest no memory is claimed', () => {
  test('after a body in chunks that is too large', async () => {
    const proxy = await bounded({ EDGE_BODY_MEMORY: '100k', EDGE_MAX_BODY_BYTES: '100k' })
    const client = RawClient.connect(proxy.port)
    client.send(`POST ${CHAT} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n${chunk('x'.repeat(101 * KIB))}`)
    await client.sees('body_too_large')
    await untilHeld(proxy, 0, 0)
  })
})
