// Who is measured, each shown to do its job first: edge limits, counts and cuts; both proxies pass on what they should.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, fetchFrom } from '../support/http-client.mjs'
import { MEASURED, PROBE, start } from '../support/processes.mjs'
import { newScratchDirectory } from '../support/scratch.mjs'

const LOW = { burst: 2, maxTokens: 1 }
const KEY = { 'X-Api-Key': 'check' }
const HIGH = { burst: 1_000_000_000_000, maxTokens: 1_000_000 }

/** edge with one plain rule for /items and one token budget for /v1. */
export async function startEdge(backend) {
  const bundle = join(newScratchDirectory(), 'bundle.json')
  writeFileSync(bundle, bundleText(1, LOW))
  const edge = await start(MEASURED, new URL('../../program/edge.js', import.meta.url), {
    args: ['serve'],
    env: {
      EDGE_MODE: 'reverse_proxy',
      EDGE_BACKEND_URL: `http://127.0.0.1:${backend.port}`,
      EDGE_CONFIG_FILE: bundle,
      EDGE_HOST: '127.0.0.1',
      EDGE_PORT: '0',
      EDGE_LOG_LEVEL: 'error',
    },
    execArgv: PROBE,
  })
  const statuses = []
  for (let i = 0; i < 3; i++) statuses.push((await fetchFrom(edge.port, '/items/1', { fields: KEY })).status)
  expect(statuses.join() === '200,200,429', `edge limits: ${statuses}`)
  const { body } = await fetchFrom(edge.port, '/v1/chat/completions?events=5&gap=1', {
    body: '{"stream":true,"messages":[]}',
    fields: KEY,
  })
  expect(body.includes('"finish_reason":"length"') && body.includes('"usage":{'), `edge cuts a stream: ${body}`)
  writeFileSync(bundle, bundleText(2, HIGH))
  while ((await fetchFrom(edge.port, '/items/1', { fields: KEY })).status !== 200) await sleep(50)
  await expectToPass(edge)
  return edge
}

export async function startPassThrough(backend) {
  const proxy = await start(MEASURED, new URL('./undici-pass-through.mjs', import.meta.url), {
    args: [`http://127.0.0.1:${backend.port}`],
    execArgv: PROBE,
  })
  await expectToPass(proxy)
  return proxy
}

async function expectToPass({ port }) {
  const { body } = await fetchFrom(port, '/echo?a=b', {
    body: 'some text',
    fields: { ...KEY, Connection: 'keep-alive, X-Hop', 'X-Hop': 'gone', 'X-Kept': 'kept' },
  })
  const { request: seen } = JSON.parse(body)
  const isKept = seen.startsWith('POST /echo?a=b HTTP/1.1\r\n') && /\r\nx-kept: kept\r\n/i.test(seen) && seen.includes('some text')
  expect(isKept && !/x-hop/i.test(seen), `a proxy passes on: ${seen}`)
}

function bundleText(version, { burst, maxTokens }) {
  const limit_keys = ['header:x-api-key']
  const bucket = { name: 'requests', limit_keys, algorithm: 'token_bucket', algorithm_config: { tokens_per_second: 1, burst } }
  const streaming = { include_partial_usage: true, buffer_tokens: 1 }
  const budget = { tokens_per_minute: 1_000_000_000, max_completion_tokens: maxTokens, streaming }
  const llm = { name: 'tokens', limit_keys, algorithm: 'token_bucket_llm', algorithm_config: budget }
  return JSON.stringify({
    bundle_version: version,
    policies: [
      { id: 'items', spec: { selector: { pathPrefix: '/items' }, rules: [bucket] } },
      { id: 'llm', spec: { selector: { pathPrefix: '/v1' }, rules: [llm] } },
    ],
  })
}
