import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import Anthropic from '@anthropic-ai/sdk'
import { GoogleGenAI } from '@google/genai'
import OpenAI, { AzureOpenAI } from 'openai'
import { describe, expect, test } from 'vitest'
import { bundle, llmRule, policy } from '../../support/bundles/bundles.ts'
import { fakeLlm, MESSAGES, proxyEnv } from '../../support/llm/llm-proxy.ts'
import type { Edge } from '../../support/service/edge.ts'
import { ask } from '../../support/service/http.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { finished, running, scratchDirectory } from '../../support/service/running.ts'

/** `llm:key`: SDKs send their key in different places, and all of them are one caller. */

const KEY = 'sk-secret-of-somebody'
const DAY = { tokens_per_day: 150, max_completion_tokens: 120 }
const ASKED = { model: 'm', max_tokens: 100, messages: [{ role: 'user' as const, content: 'hello there!' }] }
const at = (port: number, path = '') => `http://127.0.0.1:${port}${path}`

/** Each asks once, as its documentation says, for what the day holds once. */
const CLIENTS: Readonly<Record<string, (port: number, apiKey: string) => Promise<unknown>>> = {
  "OpenAI's": (port, apiKey) => new OpenAI({ baseURL: at(port, '/v1'), apiKey, maxRetries: 0 }).chat.completions.create(ASKED),
  "Azure's": (port, apiKey) =>
    new AzureOpenAI({ endpoint: at(port), apiVersion: '2024-10-21', apiKey, maxRetries: 0 }).chat.completions.create(ASKED),
  "Anthropic's": (port, apiKey) => new Anthropic({ baseURL: at(port), apiKey, maxRetries: 0 }).messages.create(ASKED),
  "Google's": (port, apiKey) =>
    new GoogleGenAI({ apiKey, httpOptions: { baseUrl: at(port) } }).models.generateContent({
      model: 'm',
      contents: 'hello there!',
      config: { maxOutputTokens: 100 },
    }),
}

async function limited(): Promise<Edge> {
  const rules = [llmRule('per-key', ['llm:key'], DAY)]
  const env = { ...proxyEnv(await fakeLlm({ tokens: 97 })), EDGE_LOG_LEVEL: 'debug' }
  return running({ clock: new ManualClock(), bundle: bundle(1, policy('p', { rules })), env })
}

function asking(edge: Edge, fields: readonly (readonly [string, string])[]): Promise<{ status: number; headers: Record<string, unknown> }> {
  return ask(edge.port, 'POST', MESSAGES, [['Content-Type', 'application/json'], ...fields], JSON.stringify(ASKED))
}

describe.each(Object.keys(CLIENTS))('%s client', (name) => {
  test('is known by its key, and so is every other client with it', async () => {
    const edge = await limited()
    await CLIENTS[name]!(edge.port, KEY)
    for (const [other, ask] of Object.entries(CLIENTS)) {
      const failure: unknown = await ask(edge.port, KEY).catch((error: unknown) => error)
      expect([other, failure]).toEqual([other, expect.objectContaining({ status: 429 })])
    }
    await CLIENTS[name]!(edge.port, 'another-key')
  })
})

describe('one key', () => {
  test.each([
    [['Authorization', `Bearer ${KEY}`]],
    [['authorization', `bearer  ${KEY} `]],
    [['X-Api-Key', KEY]],
    [['API-KEY', KEY]],
    [['x-goog-api-key', KEY]],
    [['X_Api_Key', KEY]],
  ] as const)('has one budget, however it is sent: %j', async (field) => {
    const edge = await limited()
    expect((await asking(edge, [['Authorization', `Bearer ${KEY}`]])).status).toBe(200)
    expect((await asking(edge, [field])).status).toBe(429)
    expect((await asking(edge, [field, ['Authorization', `Bearer ${KEY}`]])).status).not.toBe(200)
  })

  test('sent twice is one', async () => {
    const edge = await limited()
    expect(
      (
        await asking(edge, [
          ['Authorization', `Bearer ${KEY}`],
          ['X-Api-Key', KEY],
        ])
      ).status,
    ).toBe(200)
    expect((await asking(edge, [['X-Api-Key', KEY]])).status).toBe(429)
  })

  test.each([
    [
      ['Authorization', 'Bearer a'],
      ['X-Api-Key', 'b'],
    ],
    [
      ['X-Api-Key', 'a'],
      ['Api-Key', 'b'],
    ],
    [
      ['X-Api-Key', 'a'],
      ['x-goog-api-key', 'b'],
    ],
    [
      ['X-Api-Key', 'a'],
      ['X-Api-Key', 'a'],
    ],
  ] as const)('is one: two are refused, %j and %j', async (...fields) => {
    const { status, headers } = await asking(await limited(), fields)
    expect([status, headers['x-edge-reason']]).toEqual([400, 'repeated_descriptor'])
  })
})

test('edge validate names the rules that a client of Anthropic escapes, and no rule by llm:key', async () => {
  const printed = async (key: string): Promise<string> => {
    const rules = [llmRule('per-key', [key], DAY), llmRule('all', [], DAY)]
    const file = join(await scratchDirectory(), 'bundle.json')
    await writeFile(file, JSON.stringify(bundle(1, policy('p', { rules }))))
    const { stdout, stderr } = await finished(['validate', file])
    return stdout + stderr
  }
  expect(await printed('header:x-api-key')).toContain(
    "policies[0].spec.rules[0].limit_keys: Anthropic's SDKs send their key as Authorization: Bearer",
  )
  expect(await printed('llm:key')).not.toContain('warning')
})
