import { beforeAll, describe, expect, test } from 'vitest'
import { BAD_JSON } from '../../test/support/bundles/bad-json-bundles.ts'
import { BAD_YAML } from '../../test/support/bundles/bad-yaml-bundles.ts'
import { known } from '../../test/support/bundles/bundle-url.ts'
import { expectProblems } from '../../test/support/bundles/refused-bundles-suite.ts'
import { formatProblem } from '../text/problem.ts'
import { BundleIntake } from './bundle-intake.ts'

describe.each([
  ['json', BAD_JSON],
  ['yaml', BAD_YAML],
] as const)('a bundle that cannot be loaded, in %s', (format, badBundles) => {
  const activated: string[] = []
  const intake = new BundleIntake(
    async (_bundle, { version }) => void activated.push(version),
    () => 0,
  )
  beforeAll(async () => {
    expect(await intake.offer({ bytes: Buffer.from(known(1)), format: 'json', signature: undefined })).toMatchObject({ result: 'applied' })
  })

  test.each(badBundles)('$what: is refused with its reasons, and the last good one stays active', async (bad) => {
    const taken = await intake.offer({ bytes: Buffer.from(bad.content as string), format, signature: undefined })
    if (taken.result !== 'refused') throw new Error(`it was ${taken.result}`)
    expectProblems(taken.problems.map(formatProblem), bad)
    expect([intake.active?.version, activated]).toEqual(['1', ['1']])
  })
})
