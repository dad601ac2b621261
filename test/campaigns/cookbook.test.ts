import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { readText } from '../docs/markdown.ts'
import { RecipeService } from '../docs/recipe-service.ts'
import { recipesOf } from '../docs/recipes.ts'
import { describeWithCurl, printed } from '../docs/shell.ts'
import { jwt } from '../support/bundles/bundles.ts'
import { proxyEnv } from '../support/llm/llm-proxy.ts'
import { StreamClient } from '../support/llm/stream-client.ts'
import { HttpBackend } from '../support/proxy/backend.ts'
import { finished, running, scratchDirectory } from '../support/service/running.ts'
import { until } from '../support/until.ts'

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
    for (const [series, value] of metrics) expect(await service.edge.metric(series), series).toBe(value)
  })
})

describeWithCurl('docs/cookbook.md', () => {
  const withCommands = COOKBOOK.filter(({ commands }) => commands !== '')

  test.each(withCommands)('$title: the commands print what the page shows', async ({ bundle, modes, commands, output }) => {
    const { edge } = await RecipeService.start(bundle, modes[0]!)
    expect(await printed(commands, edge.port)).toBe(output)
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
  await until(() => edge.logged('streams_cut').length > 0)
  expect(edge.logged('streams_cut')).toMatchObject([{ policy: 'incident-4711', rule: 'acme', streams: 1 }])
})

test('the cookbook begins with a list of its recipes', () => {
  const listed = [...readText('docs/cookbook.md').matchAll(/^- \[(.*)\]\(#/gm)].map(([, title]) => title)
  expect(listed).toEqual(COOKBOOK.map(({ title }) => title))
})

/** Without the file and the path in it. */
function remarksOf(stderr: string): Set<string> {
  const lines = stderr.split('\n').filter((line) => line !== '')
  return new Set(lines.map((line) => line.replace(/^\S+: (\w+): (?:(?:policies|prices)\S*: )?/, '$1: ')))
}
