// Who is measured, each shown to do its job first: edge limits, counts and cuts; both proxies pass on what they should.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { MEASURED, start } from './processes.mjs'

const LOW = { burst: 2, maxTokens: 1 }
const HIGH = { burst: 1_000_000_000_000, maxTokens: 1_000_000 }

/** edge with one plain rule for /items and one token budget for /v1. */
export async function startEdge(backend) {
  const directory = mkdtempSync(join(tmpdir(), 'edge-bench-'))
  process.once('exit', () => rmSync(directory, { recursive: true, force: true }))
  const bundle = join(directory, 'bundle.json')
  writeFileSync(bundle, bundleText(1, LOW))
  const edge = await start(MEASURED, '../../dist/cli/main.js', ['serve'], {
    EDGE_MODE: 'reverse_proxy',
    EDGE_BACKEND_URL: `http://127.0.0.1:${backend.port}`,
    EDGE_CONFIG_FILE: bundle,
    EDGE_HOST: '127.0.0.1',
    EDGE_PORT: '0',
    EDGE_LOG_LEVEL: 'error',
  })
  const statuses = []
  for (let i = 0; i < 3; i++) statuses.push((await fetchFrom(edge.port, '/items/1')).status)
  expect(statuses.join() === '200,200,429', `edge limits: ${statuses}`)
  const { body } = await fetchFrom(edge.port, '/v1/chat/completions?events=5&gap=1', { body: '{"stream":true,"messages":[]}' })
  expect(body.includes('"finish_reason":"length"') && body.includes('"usage":{'), `edge cuts a stream: ${body}`)
  writeFileSync(bundle, bundleText(2, HIGH))
  while ((await fetchFrom(edge.port, '/items/1')).status !== 200) await sleep(50)
  await expectToPass(edge)
  return edge
}

export async function startPassThrough(backend) {
  const proxy = await start(MEASURED, './undici-pass-through.mjs', [`http://127.0.0.1:${backend.port}`])
  await expectToPass(proxy)
  return proxy
}

async function expectToPass({ port }) {
  const { body } = await fetchFrom(port, '/echo?a=b', {
    body: 'some text',
    fields: { Connection: 'keep-alive, X-Hop', 'X-Hop': 'gone', 'X-Kept': 'kept' },
  })
  const { request: seen } = JSON.parse(body)
  const isKept = seen.startsWith('POST /echo?a=b HTTP/1.1\r\n') && /\r\nx-kept: kept\r\n/i.test(seen) && seen.includes('some text')
  expect(isKept && !/x-hop/i.test(seen), `a proxy passes on: ${seen}`)
}

function fetchFrom(port, path, { body, fields } = {}) {
  return new Promise((resolve, reject) => {
    const method = body === undefined ? 'GET' : 'POST'
    const req = request({ port, host: '127.0.0.1', path, method, headers: { 'X-Api-Key': 'check', ...fields }, agent: false }, (res) => {
      text(res).then((answer) => resolve({ status: res.statusCode, body: answer }), reject)
    })
    req.on('error', reject).end(body)
  })
}

function expect(isTrue, what) {
  if (!isTrue) throw new Error(`not so: ${what}`)
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
