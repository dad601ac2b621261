import { expect, test } from 'vitest'
import { WorkSlices } from '../../time/slices.ts'
import { ProxiedRequest } from '../proxied-request.ts'
import { readCost } from './body-cost.ts'

const BODY = Buffer.from('{"messages":[{"role":"user","content":"hello"}],"max_tokens":5}')

test('each request is read by its own path, whatever was asked before', async () => {
  const asked = ['/openai/deployments/a/chat/completions', '/openai/deployments/b/chat/completions', '/v1/chat/completions']
  const models: unknown[] = []
  for (const target of [...asked, ...asked.toReversed()]) models.push(await modelOf('', target))
  expect(models).toEqual(['a', 'b', undefined, undefined, 'b', 'a'])
})

test('the same path is read anew behind the path of another backend', async () => {
  const models: unknown[] = []
  for (const basePath of ['', '/openai/deployments/a', '/openai/deployments/a', '/openai/deployments/b', ''])
    models.push(await modelOf(basePath, '/chat/completions'))
  expect(models).toEqual([undefined, 'a', 'a', 'b', undefined])
})

async function modelOf(basePath: string, target: string): Promise<string | undefined> {
  const fields = ['Host', 'a', 'Content-Type', 'application/json', 'Content-Length', String(BODY.length)]
  const request = ProxiedRequest.read({ method: 'POST', target, version: '1.1', fields }, false) as ProxiedRequest
  const cost = await readCost(BODY, request, { maxBytes: 1000, slices: new WorkSlices(), basePath })
  if (typeof cost === 'string') throw new Error(cost)
  return cost.model
}
