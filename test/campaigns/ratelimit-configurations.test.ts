import { readdirSync, readFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { describeWith } from '../support/describe-with.ts'
import { ratelimitMissing, SOURCES } from '../support/ratelimit/ratelimit.ts'
import { command } from '../support/service/command.ts'
import { scratchDirectory } from '../support/service/running.ts'

describeWith(ratelimitMissing(), 'edge convert on the configurations that envoyproxy/ratelimit publishes', () => {
  test('its examples: everything but `replaces`', async () => {
    expect(await outcomeOf(join(SOURCES, 'examples/ratelimit/config/config.yaml'))).toEqual({ status: 0, named: [] })
    expect(await outcomeOf(join(SOURCES, 'examples/ratelimit/config/example.yaml'))).toEqual({ status: 1, named: ['replaces'] })
  })

  test('those of its README', async () => {
    const readme = readFileSync(join(SOURCES, 'README.md'), 'utf8')
    const blocks = [...readme.matchAll(/^```yaml\n(domain: [^<][\s\S]*?)^```$/gm)].map((match) => match[1]!)
    expect(blocks.length).toBeGreaterThanOrEqual(12)
    const file = join(await scratchDirectory(), 'block.yaml')
    for (const block of blocks) {
      await writeFile(file, block)
      const isReplacing = block.includes('replaces:')
      expect([block, await outcomeOf(file)]).toEqual([block, { status: isReplacing ? 1 : 0, named: isReplacing ? ['replaces'] : [] }])
    }
  })

  test('those of its own tests: what it refuses is refused, and the rest is converted', async () => {
    const directory = join(SOURCES, 'test/config')
    const refused = []
    for (const name of readdirSync(directory).filter((file) => file.endsWith('.yaml'))) {
      const { status, named } = await outcomeOf(join(directory, name))
      if (status !== 0 && named.length === 0) refused.push(name)
    }
    expect(refused).toEqual([
      'bad_limit_unit.yaml',
      'bad_yaml.yaml',
      'duplicate_key.yaml',
      'empty_domain.yaml',
      'empty_key.yaml',
      'misspelled_key.yaml',
      'misspelled_key2.yaml',
      'non_map_list.yaml',
      'non_string_key.yaml',
      'replaces_empty.yaml',
      'replaces_self.yaml',
      'unlimited_with_unit.yaml',
    ])
  })
})

/** What cannot be expressed, each once. What is printed loads. */
async function outcomeOf(file: string): Promise<{ status: number; named: string[] }> {
  const { status, stdout, stderr } = await command('convert', 'ratelimit', file)
  const named = new Set([...stderr.matchAll(/: not converted: .*\.(\w+): /g)].map((match) => match[1]!))
  if (stdout !== '') {
    const bundle = join(await scratchDirectory(), 'bundle.yaml')
    await writeFile(bundle, stdout)
    expect((await command('validate', bundle)).status).toBe(0)
  }
  return { status, named: [...named] }
}
