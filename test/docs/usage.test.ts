import { expect, test } from 'vitest'
import { CHAT } from '../support/llm/llm-proxy.ts'
import { scriptedLlm } from '../support/llm/scripted-llm.ts'
import { command } from '../support/service/command.ts'
import { documentedLlm, documentedUsage, playMonth, SHOWN_DIRECTORY, USAGE_PAGE } from '../support/usage/documented-usage.ts'
import { codeBlocks } from './markdown.ts'

test('the line of docs/usage.md is that of a request with the bundle of the page', async () => {
  const backend = await scriptedLlm()
  const url = `http://127.0.0.1:${backend.port}`
  const routed = `backends: { azure-eu: { url: "${url}" } }\nroutes: [{ backends: [{ name: azure-eu, model: gpt-4o-2024-08-06 }] }]\n`
  const documented = await documentedUsage(backend, routed)
  const { proxy } = documented
  const traceparent = ['Traceparent', '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'] as const
  const body = { model: 'gpt-4o', messages: [{ role: 'user', content: 'word'.repeat(812) }], max_tokens: 1000 }
  const client = proxy.open(CHAT, body, [...documented.fieldsOf('search'), traceparent])
  const call = await backend.next()
  proxy.clock.advance(420)
  call.begin({ 'Content-Type': 'application/json' })
  await client.untilHead()
  proxy.clock.advance(1890)
  const usage = { prompt_tokens: 812, prompt_tokens_details: { cached_tokens: 512 }, completion_tokens: 164 }
  call.end(JSON.stringify({ choices: [{ message: { content: 'a' } }], usage }))
  await client.untilClosed()
  const [line] = await proxy.lines(1)
  const [shown] = codeBlocks(USAGE_PAGE, 'json')
  expect(line).toEqual(JSON.parse(shown!))
  expect(Object.keys(line!)).toEqual(Object.keys(JSON.parse(shown!)))
})

test('the report of docs/usage.md is what the command of the page prints', async () => {
  const documented = await documentedUsage(await documentedLlm())
  const { proxy } = documented
  await proxy.lines(await playMonth(documented))
  const [shown] = codeBlocks(USAGE_PAGE, '').filter((block) => block.startsWith('$ edge usage'))
  const [first, ...rows] = shown!.split('\n') as [string, ...string[]]
  const { status, stdout } = await command(...first.slice('$ edge '.length).replace(SHOWN_DIRECTORY, proxy.directory).split(' '))
  expect(status).toBe(0)
  expect(stdout).toBe(rows.join('\n'))
})
