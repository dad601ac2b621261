import { execFile } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, test } from 'vitest'
import { finished, scratchDirectory } from '../support/service/running.ts'
import { readText } from './markdown.ts'
import { RecipeService } from './recipe-service.ts'
import { type Recipe, recipesOf } from './recipes.ts'

const run = promisify(execFile)

describe.each(['docs/cookbook.md', 'docs/moving.md'])('%s', (page) => {
  const recipes = recipesOf(readText(page))

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

/** Without the file and the path in it. */
function remarksOf(stderr: string): Set<string> {
  const lines = stderr.split('\n').filter((line) => line !== '')
  return new Set(lines.map((line) => line.replace(/^\S+: (\w+): (?:(?:policies|prices)\S*: )?/, '$1: ')))
}

async function printed({ commands }: Recipe, port: number): Promise<string> {
  const { stdout } = await run('sh', ['-c', commands.replaceAll('localhost:8080', `127.0.0.1:${port}`)])
  return stdout.trimEnd()
}
