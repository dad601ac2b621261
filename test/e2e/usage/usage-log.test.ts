import { readdir, readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { startProblem } from '../../../src/cli/start-problem.ts'
import { readConfig, type ServerConfig } from '../../../src/config/config.ts'
import { CHAT, fakeLlm, HELLO } from '../../support/llm/llm-proxy.ts'
import { chatChunk, chatStream } from '../../support/llm/llm-streams.ts'
import { answeringLlm, scriptedLlm, streamingLlm } from '../../support/llm/scripted-llm.ts'
import { sized } from '../../support/run/property-runs.ts'
import { running, scratchDirectory } from '../../support/service/running.ts'
import { expectSumsOf, usageBundle, usageProxy } from '../../support/usage/usage-proxy.ts'

const BIG = { model: 'big', messages: HELLO, max_tokens: 50 }
const RED = ['X-Team', 'red'] as const

describe('a settled request', () => {
  test('has a line with what each rule charged, in which window, and the labels that the bundle names', async () => {
    const proxy = await usageProxy(await fakeLlm({ tokens: 10 }))
    const traceparent = ['Traceparent', `00-${'ab'.repeat(16)}-${'cd'.repeat(8)}-00`] as const
    expect((await proxy.post(CHAT, BIG, [RED, traceparent, ['Authorization', 'Bearer sk-secret'], ['X-Other', 'other']])).status).toBe(200)
    const [line] = await proxy.lines(1)
    const day = { start: '2026-01-15T00:00:00.000Z', end: '2026-01-16T00:00:00.000Z' }
    const { labels, ...rest } = line!
    expect(rest).toEqual({
      time: '2026-01-15T12:00:00.000Z',
      trace: 'ab'.repeat(16),
      model: 'big',
      status: 200,
      end: 'done',
      tokens: { input: 3, cached_input: 0, cache_write: 0, cache_write_1h: 0, output: 10 },
      first_byte_ms: 0,
      last_byte_ms: 0,
      rules: [
        { policy: 'llm', rule: 'tokens', reserved_tokens: 53, tokens: 13, windows: [{ ...day, charged: 13 }] },
        {
          policy: 'llm',
          rule: 'money',
          reserved_nanos: 1_090_000_000,
          cost_nanos: 230_000_000,
          windows: [{ ...day, charged: 230_000_000 }],
        },
        { policy: 'watched', rule: 'tokens', mode: 'shadow', reserved_tokens: 53, tokens: 13, windows: [{ ...day, charged: 13 }] },
      ],
    })
    expect(labels).toEqual({ 'header:x-team': 'red', 'llm:model': 'big', bearer: expect.stringMatching(/^[0-9a-f]{16}$/) })
    expectSumsOf([line!], await proxy.metrics())
    const [name] = await readdir(proxy.directory)
    expect(name).toMatch(/^usage-2026-01-15T12-[0-9a-f]{8}-1\.jsonl$/)
    expect((await stat(join(proxy.directory, name!))).mode & 0o777).toBe(0o600)
    expect(await readFile(join(proxy.directory, name!), 'utf8')).not.toMatch(/secret|other/)
  })

  test('has no labels unless the bundle names some, and a value that is missing, repeated or long is left out or cut', async () => {
    const backend = await fakeLlm({ tokens: 1 })
    const unnamed = await usageProxy(backend, { bundle: { ...usageBundle(1), usage: undefined } })
    await unnamed.post(CHAT, BIG, [RED])
    expect((await unnamed.lines(1))[0]!.labels).toEqual({})
    const proxy = await usageProxy(backend, { bundle: usageBundle(1, ['header:x-a', 'header:x-b', 'header:x-c', 'llm:model']) })
    await proxy.post(CHAT, { ...BIG, model: undefined }, [RED, ['X-A', 'one'], ['X-A', 'two'], ['X-C', 'c'.repeat(300)]])
    expect((await proxy.lines(1))[0]!.labels).toEqual({ 'header:x-c': 'c'.repeat(256) })
  })

  test('has no text that a database refuses, whatever a client sends', async () => {
    const proxy = await usageProxy(await fakeLlm({ tokens: 1 }), { bundle: usageBundle(1, ['llm:model']) })
    await proxy.post(CHAT, '{"model":"a\\u0000b\\ud800","messages":[],"max_tokens":5}', [RED])
    const [line] = await proxy.lines(1)
    expect([line!['model'], line!.labels]).toEqual(['a\ufffdb\ufffd', { 'llm:model': 'a\ufffdb\ufffd' }])
    const [name] = await readdir(proxy.directory)
    expect(await readFile(join(proxy.directory, name!), 'utf8')).not.toMatch(/\\u0000|\\ud800/)
  })

  test('is in the log of the usage, not in that of decisions, if only a label reads a value', async () => {
    const decisions = join((await usageProxy(await fakeLlm())).directory, '..', 'decisions.log')
    const proxy = await usageProxy(await fakeLlm(), { bundle: usageBundle(1, ['header:x-person']), env: { EDGE_DECISION_LOG: decisions } })
    await proxy.post(CHAT, BIG, [RED, ['X-Person', 'ada']])
    expect((await proxy.lines(1))[0]!.labels).toEqual({ 'header:x-person': 'ada' })
    await proxy.edge.stop()
    expect(await readFile(decisions, 'utf8')).toContain('"x-team":"red"')
    expect(await readFile(decisions, 'utf8')).not.toContain('ada')
  })
})

describe('each way to end', () => {
  test('a stream to its end, one that is cut, and a client that goes', async () => {
    const streams = await usageProxy(await streamingLlm(chatStream(['abcd', 'efgh'])))
    await streams.stream(CHAT, BIG, [RED])
    const [done] = await streams.lines(1)
    expect(done).toMatchObject({ end: 'done', estimate: 'fair', tokens: { input: 3, output: 2 } })
    expectSumsOf([done!], await streams.metrics())

    const cutting = await usageProxy(await streamingLlm(chatStream(['a'.repeat(400), 'b'.repeat(400)])), {
      bundle: usageBundle(1, [], { max_completion_tokens: 20, streaming: { buffer_tokens: 1 } }),
    })
    await cutting.stream(CHAT, BIG, [RED])
    const [cut] = await cutting.lines(1)
    expect(cut).toMatchObject({ end: 'truncated', status: 200 })
    expectSumsOf([cut!], await cutting.metrics())

    const backend = await scriptedLlm()
    const leaving = await usageProxy(backend)
    const client = leaving.open(CHAT, { ...BIG, stream: true }, [RED])
    const call = await backend.next()
    call.begin()
    await call.write(chatChunk({ content: 'abcd' }))
    await client.untilText('abcd')
    leaving.clock.advance(1234)
    client.abort()
    const [gone] = await leaving.lines(1)
    expect(gone).toMatchObject({ end: 'client_gone', tokens: { input: 3, output: 1 }, first_byte_ms: 0, last_byte_ms: 1234 })
    expectSumsOf([gone!], await leaving.metrics())
  })

  test('a refusal of the backend and its failure cost nothing and have a line; a response that nobody understands keeps its reservation', async () => {
    const refusing = await usageProxy(await answeringLlm(400, { error: 'no' }))
    expect((await refusing.post(CHAT, BIG, [RED])).status).toBe(400)
    const [refused] = await refusing.lines(1)
    expect(refused).toMatchObject({ status: 400, end: 'done', usage: 'nothing', rules: [{ tokens: 0 }, { cost_nanos: 0 }, { tokens: 0 }] })
    expectSumsOf([refused!], await refusing.metrics())

    const closed = await fakeLlm()
    const failing = await usageProxy(closed)
    await closed.close()
    expect((await failing.post(CHAT, BIG, [RED])).status).toBe(502)
    const [failed] = await failing.lines(1)
    expect(failed).toMatchObject({ end: 'backend_failed', usage: 'nothing' })
    expect(failed).not.toHaveProperty('status')
    expect(failed).not.toHaveProperty('first_byte_ms')
    expectSumsOf([failed!], await failing.metrics())

    const unknown = await usageProxy(await answeringLlm(200, { what: 'is this' }))
    await unknown.post(CHAT, BIG, [RED])
    const [kept] = await unknown.lines(1)
    expect(kept).toMatchObject({ end: 'done', estimate: 'low', rules: [{ tokens: 53 }, { cost_nanos: 1_090_000_000 }, { tokens: 53 }] })
    expectSumsOf([kept!], await unknown.metrics())
  })

  test('requests that no rule for tokens or money covers, and those that are rejected, have no line', async () => {
    const proxy = await usageProxy(await fakeLlm({ tokens: 1 }), { bundle: usageBundle(1, [], { burst_tokens: 60 }) })
    await proxy.post(CHAT, BIG, [RED])
    expect((await proxy.post(CHAT, { ...BIG, max_tokens: 100 }, [RED])).status).toBe(429)
    expectSumsOf(await proxy.lines(1), await proxy.metrics())
  })
})

test('many amounts with fractions of a billionth of the unit add up to the billionth', async () => {
  const prices = { main: { '*': { input: 0.123457, output: 0.000003 } } }
  const proxy = await usageProxy(await fakeLlm({ tokens: 7 }), { bundle: { ...usageBundle(1), prices } })
  const requests = sized(20, 200)
  for (let i = 0; i < requests; i++) await proxy.post(CHAT, BIG, [RED])
  const lines = await proxy.lines(requests)
  expectSumsOf(lines, await proxy.metrics())
})

describe('the settings', () => {
  const proxy = { EDGE_MODE: 'reverse_proxy', EDGE_BACKEND_URL: 'http://127.0.0.1:9' }

  test('are for reverse_proxy, and a number of days', () => {
    const problems = (env: Record<string, string>): readonly string[] => {
      const result = readConfig(env, {})
      return result.ok ? [] : result.problems
    }
    expect(problems({ ...proxy, EDGE_USAGE_DIR: '/u', EDGE_USAGE_KEEP_DAYS: '400' })).toEqual([])
    expect(problems({ EDGE_USAGE_DIR: '/u' })).toEqual([
      'EDGE_USAGE_DIR: expected EDGE_MODE=reverse_proxy, because only there edge sees what a response used',
    ])
    for (const days of ['0', '-1', '1.5', '3661', 'all'])
      expect(problems({ ...proxy, EDGE_USAGE_KEEP_DAYS: days })[0]).toContain(
        'EDGE_USAGE_KEEP_DAYS: expected a number of days from 1 to 3660',
      )
  })

  test('a directory that cannot be written stops the start, with a sentence', async () => {
    const path = join(await scratchDirectory(), 'taken')
    await writeFile(path, 'a file')
    const env = { ...proxy, EDGE_USAGE_DIR: path }
    const failure = await running({ env }).catch((error: unknown) => error)
    expect(startProblem({} as ServerConfig, failure as Error)).toMatch(/^EDGE_USAGE_DIR: cannot write files to .+taken: /)
  })
})
