import { expect, test } from 'vitest'
import { bundle } from '../support/bundles/bundles.ts'
import { HttpBackend } from '../support/proxy/backend.ts'
import { proxying } from '../support/proxy/proxy.ts'
import { ask } from '../support/service/http.ts'
import { codeBlocks, readText, withoutCodeBlocks } from './markdown.ts'

test('docs/callers.md begins with a list of all its sections, in their order', () => {
  const text = withoutCodeBlocks(readText('docs/callers.md'))
  const sections = Array.from(text.matchAll(/^## (.+)$/gm), ([, title]) => title)
  expect(Array.from(text.matchAll(/^- \[(.+)\]\(#[^)]+\)$/gm), ([, title]) => title)).toEqual(sections)
})

test('the proxy answers an unknown caller as docs/reverse-proxy.md shows', async () => {
  const [shown] = codeBlocks(readText('docs/reverse-proxy.md'), '').filter((block) => block.startsWith('HTTP/1.1 401'))
  const [head, body] = shown!.trimEnd().split('\n\n') as [string, string]
  const [, ...fields] = head.split('\n').map((line) => line.split(': ') as [string, string])
  const backend = await HttpBackend.start()
  const edge = await proxying(backend, { bundle: { ...bundle(1), callers: { mode: 'enforce', keys: {} } } })
  const answer = await ask(edge.port, 'POST', '/v1/chat/completions', [], '{}')
  expect([answer.status, answer.body]).toEqual([401, body])
  for (const [name, value] of fields) expect(answer.headers[name.toLowerCase()], name).toBe(value)
  expect(backend.seen).toEqual([])
})
