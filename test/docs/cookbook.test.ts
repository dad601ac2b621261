import { execFile } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, test } from 'vitest'
import { jwt } from '../support/bundles/bundles.ts'
import { proxyEnv } from '../support/llm/llm-proxy.ts'
import { HttpBackend } from '../support/proxy/backend.ts'
import { ask } from '../support/service/http.ts'
import { finished, running, scratchDirectory } from '../support/service/running.ts'
import { until } from '../support/until.ts'
import { readText } from './markdown.ts'
import { RecipeService } from './recipe-service.ts'
import { type Recipe, recipesOf } from './recipes.ts'

const run = promisify(execFile)
const COOKBOOK = recipesOf(readText('docs/cookbook.md'))
const MOVING = recipesOf(readText('docs/moving.md'))

describe.each([
  ['docs/cookbook.md', COOKBOOK],
  ['docs/moving.md', MOVING],
] as const)('%s', (_page, recipes) => {
  describe.each(recipes)('$title', (recipe) => {
    test('`edge validate` accepts the bundle, and says only what the page says', async () => {
      const file = join(await scratchDirectory(), 'limits.yaml')
      await writeFile(file, recipe.bundle)
      const { status, stderr } = await finished(['validate', file])
      expect([status, remarksOf(stderr)]).toEqual([0, new Set(recipe.remarks)])
    })

    test.each(recipe.modes)('callers see what the page shows, in %s', async (mode) => {
      const service = await RecipeService.start(recipe, mode)
      for (const exchange of recipe.exchanges) await service.play(exchange)
      for (const [series, value] of recipe.metrics) expect(await service.edge.metric(series), series).toBe(value)
      if (recipe.commands !== '') expect(await printed(recipe, service.edge.port)).toBe(recipe.output)
      expect(recipe.exchanges.length + recipe.commands.length).toBeGreaterThan(0)
    })
  })
})

test('the cookbook ends the streams of the customer that it blocks', async () => {
  const { bundle } = COOKBOOK.find(({ title }) => title === 'Block one customer')!
  const backend = await HttpBackend.start((_req, res) => {
    res.writeHead(200, { 'Content-Type': 'text/event-stream' }).write('data: one\n\n')
  })
  const edge = await running({ bundle: 'bundle_version: 0\npolicies: []\n', fileName: 'limits.yaml', env: proxyEnv(backend) })
  const stream = ask(edge.port, 'GET', '/v1/stream', [['Authorization', `Bearer ${jwt({ org: 'acme' })}`]])
  await until(() => backend.seen.length === 1)
  await edge.publish(bundle)
  expect([(await stream).status, (await stream).body]).toEqual([200, 'data: one\n\n'])
  expect(await edge.metric('edge_proxy_streams_cut_total{policy="incident-4711",rule="acme"}')).toBe(1)
})

/** Without the file and the path in it. */
function remarksOf(stderr: string): Set<string> {
  const lines = stderr.split('\n').filter((line) => line !== '')
  return new Set(lines.map((line) => line.replace(/^\S+: (\w+): (?:(?:policies|prices)\S*: )?/, '$1: ')))
}

async function printed({ commands }: Recipe, port: number): Promise<string> {
  const { stdout } = await run('sh', ['-c', commands.replaceAll('localhost:8080', `127.0.0.1:${port}`)])
  return stdout.trimEnd()
}
