import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import Anthropic from '@anthropic-ai/sdk'
import OpenAI from 'openai'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { codeBlocks, readText } from '../docs/markdown.ts'
import { followSection } from '../docs/page-session.ts'
import { RecipeService } from '../docs/recipe-service.ts'
import { recipesOf } from '../docs/recipes.ts'
import { describeWithCurl, printed } from '../docs/shell.ts'
import { jwt } from '../support/bundles/bundles.ts'
import { fakeLlm, proxyEnv } from '../support/llm/llm-proxy.ts'
import { StreamClient } from '../support/llm/stream-client.ts'
import { HttpBackend } from '../support/proxy/backend.ts'
import { finished, running, scratchDirectory } from '../support/service/running.ts'
import { untilLogged } from '../support/service/until-logged.ts'

const COOKBOOK = recipesOf(readText('docs/cookbook.md'))
const MOVING = recipesOf(readText('docs/moving.md'))

describe.each([
  ['docs/cookbook.md', COOKBOOK],
  ['docs/moving.md', MOVING],
] as const)('%s', (_page, recipes) => {
  test.each(recipes)('$title: `edge validate` accepts the bundle, and says only what the page says', async ({ bundle, remarks }) => {
    const file = join(await scratchDirectory(), 'limits.yaml')
    await writeFile(file, bundle)
    const { status, stderr } = await finished(['validate', file])
    expect([status, remarksOf(stderr)]).toEqual([0, new Set(remarks)])
  })

  const shown = recipes.flatMap((recipe) => recipe.modes.map((mode) => ({ ...recipe, mode }))).filter(({ commands }) => commands === '')

  test.each(shown)('$title: callers see what the page shows, in $mode', async ({ bundle, mode, exchanges, metrics }) => {
    expect(exchanges).not.toHaveLength(0)
    const service = await RecipeService.start(bundle, mode)
    for (const exchange of exchanges) await service.play(exchange)
    for (const [series, value] of metrics) expect(await service.metric(series), series).toBe(value)
  })
})

describeWithCurl('docs/cookbook.md', () => {
  const withCommands = COOKBOOK.filter(({ commands, session }) => commands !== '' && session === undefined)

  test.each(withCommands)('$title: the commands print what the page shows', async ({ bundle, modes, commands, output }) => {
    const { edge } = await RecipeService.start(bundle, modes[0]!)
    expect(await printed(commands, edge.port)).toBe(output)
  })

  const sessions = COOKBOOK.flatMap(({ title, session }) => (session === undefined ? [] : [{ title, session }]))

  test.each(sessions)('$title: the commands print what the page shows, from the start of the service on', async ({ session }) => {
    await followSection(session, `http://127.0.0.1:${(await fakeLlm({ tokens: 20 })).port}`)
  })
})

test('the cookbook ends the streams of the customer that it blocks', async () => {
  const { bundle } = COOKBOOK.find(({ title }) => title === 'Block one customer')!
  const backend = await HttpBackend.start((_req, res) => {
    res.writeHead(200, { 'Content-Type': 'text/event-stream' }).write('data: one\n\n')
  })
  const edge = await running({ bundle: 'bundle_version: 0\npolicies: []\n', fileName: 'limits.yaml', env: proxyEnv(backend) })
  const stream = new StreamClient(edge.port, '/v1/stream', '', [['Authorization', `Bearer ${jwt({ org: 'acme' })}`]])
  await stream.untilText('one')
  await edge.publish(bundle)
  expect((await stream.untilClosed()).text).toBe('data: one\n\n')
  expect(await untilLogged(edge, 'streams_cut')).toMatchObject([{ policy: 'incident-4711', rule: 'acme', streams: 1 }])
})

test('the SDKs name their team as the cookbook shows, and the budgets of teams are charged', async () => {
  const page = readText('docs/cookbook.md')
  const { bundle } = COOKBOOK.find(({ title }) => title === 'Teams in front of a provider')!
  const edge = await running({ bundle, fileName: 'limits.yaml', env: proxyEnv(await fakeLlm({ tokens: 20 })) })
  const clients = codeBlocks(page, 'js')[0]!
    .replace(/^import .*$/gm, '')
    .replaceAll('http://localhost:8080', `http://127.0.0.1:${edge.port}`)
  vi.stubEnv('OPENAI_API_KEY', 'sk-of-the-company')
  vi.stubEnv('ANTHROPIC_API_KEY', 'sk-of-the-company')
  onTestFinished(() => void vi.unstubAllEnvs())
  const make = new Function('OpenAI', 'Anthropic', `${clients}; return [openai, anthropic]`)
  const [openai, anthropic] = make(OpenAI, Anthropic) as [OpenAI, Anthropic]
  const messages = [{ role: 'user' as const, content: 'hello' }]
  await openai.chat.completions.create({ model: 'small-1', messages })
  await anthropic.messages.create({ model: 'small-1', max_tokens: 20, messages })
  const allowed = 'edge_decisions_total{action="allow",reason="all_rules_passed",policy="teams",route="/v1"}'
  expect(await edge.metric(allowed)).toBe(2)
  const noTeam = new OpenAI({ baseURL: openai.baseURL, maxRetries: 0 })
  const refused = noTeam.chat.completions.create({ model: 'small-1', messages })
  await expect(refused).rejects.toMatchObject({ status: 403, message: '403 Name your team in X-Team.' })
})

test('the cookbook begins with a list of its recipes', () => {
  const listed = [...readText('docs/cookbook.md').matchAll(/^- \[(.*)\]\(#/gm)].map(([, title]) => title)
  expect(listed).toEqual(COOKBOOK.map(({ title }) => title))
})

/** Without the file and the path in it. */
function remarksOf(stderr: string): Set<string> {
  const lines = stderr.split('\n').filter((line) => line !== '')
  return new Set(lines.map((line) => line.replace(/^\S+: (\w+): (?:(?:policies|prices|callers)\S*: )?/, '$1: ')))
}
