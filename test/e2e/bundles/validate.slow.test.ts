import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { beforeAll, describe, expect, test } from 'vitest'
import { BAD_JSON } from '../../support/bundles/bad-json-bundles.ts'
import { BAD_YAML } from '../../support/bundles/bad-yaml-bundles.ts'
import { bucketRule, bundle, policy, windowRule } from '../../support/bundles/bundles.ts'
import type { Cli } from '../../support/service/cli.ts'
import { finished, scratchDirectory } from '../../support/service/running.ts'
import { thisSuite } from '../../support/service/suite-owner.ts'

describe('the program edge validate on bundles that cannot be loaded', () => {
  const cases = [
    ...BAD_JSON.map((bad, i) => ({ ...bad, name: `${i}.json` })),
    ...BAD_YAML.map((bad, i) => ({ ...bad, name: `${i}.yaml`, what: `YAML: ${bad.what}` })),
  ]
  const owner = thisSuite()
  let directory: string
  let cli: Cli & { status: number }
  beforeAll(async () => {
    directory = await scratchDirectory(owner)
    for (const { name, content } of cases) await writeFile(join(directory, name), content)
    cli = await finished(['validate', ...cases.map(({ name }) => join(directory, name))], {}, owner)
  })

  test('answers 1 and calls none of them ok', () => {
    expect([cli.status, cli.stdout]).toEqual([1, ''])
  })

  test.each(cases)('$what: names file, path and problem', ({ name, problems }) => {
    const file = join(directory, name)
    const isSaid = (line: string): boolean => /^(?::\d+:\d+)?: (?!warning: )/.test(line.slice(file.length))
    const said = cli.stderr.split('\n').filter((line) => line.startsWith(`${file}:`) && isSaid(line))
    for (const problem of problems)
      expect(
        said.filter((line) =>
          line
            .slice(file.length)
            .replace(/^(?::\d+:\d+)?: (?:error: )?/, '')
            .startsWith(problem),
        ),
      ).toHaveLength(1)
    expect(said).toHaveLength(problems.length)
  })
})

test('a bundle that a thread of its own reads is checked as any other, windows included', async () => {
  const file = join(await scratchDirectory(), 'large.json')
  const rules = [windowRule('day', ['ip:address'], { limit: 1000, period: '1d' }), bucketRule('second', ['ip:address'], 5)]
  const policies = Array.from({ length: 4000 }, (_, i) => policy(`p${i}`, { rules }))
  await writeFile(file, JSON.stringify(bundle(1, ...policies)))
  const { status, stdout, stderr } = await finished(['validate', file])
  expect({ status, stdout, stderr }).toEqual({ status: 0, stdout: `${file}: ok, version 1, 4000 policies\n`, stderr: '' })
})
