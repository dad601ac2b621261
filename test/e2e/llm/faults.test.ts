import { expect, test } from 'vitest'
import { Settlement } from '../../../src/proxy/llm/settlement.ts'
import { both, CHAT, HELLO, HELLO_TOKENS, type LlmProxy, llmProxy } from '../../support/llm/llm-proxy.ts'
import { chatChunk } from '../../support/llm/llm-streams.ts'
import { scriptedLlm } from '../../support/llm/scripted-llm.ts'
import { breakOnce, MISTAKE } from '../../support/proxy/mistakes.ts'
import { untilLogged } from '../../support/service/until-logged.ts'
import { until } from '../../support/until.ts'

/** Mistakes of our own, made once and on purpose: each costs one request, and never the worker that serves all the others. More of them: faults.slow.test.ts */

const ASKED = { stream: true, messages: HELLO, max_tokens: 500 }

test('a stream whose client leaves while the settlement breaks ends, and what was reserved is spent', async () => {
  const backend = await scriptedLlm()
  const proxy = await llmProxy(backend)
  const client = proxy.open(CHAT, ASKED)
  const call = await backend.next()
  call.begin()
  await call.write(chatChunk({ content: 'abcd' }))
  await client.untilText('abcd')
  breakOnce(Settlement.prototype, 'settleStream')
  client.abort()
  await until(() => call.isAborted)
  expect(await proxy.spent()).toEqual(both(HELLO_TOKENS + 500))
  await expectInternalError(proxy)
})

async function expectInternalError(proxy: LlmProxy): Promise<void> {
  expect(await untilLogged(proxy.edge, 'internal_error')).toMatchObject([{ err: { message: MISTAKE.message } }])
  expect((await proxy.edge.get('/livez')).status).toBe(200)
}
