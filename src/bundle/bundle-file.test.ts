import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { pino } from 'pino'
import { describe, expect, type TestContext, test } from 'vitest'
import { replaceFile } from '../../test/support/bundles/bundle-file.ts'
import { known } from '../../test/support/bundles/bundle-url.ts'
import { newSigner } from '../../test/support/bundles/signing.ts'
import { scratchDirectory } from '../../test/support/service/running.ts'
import { until } from '../../test/support/until.ts'
import { WatchedFile } from '../files/watched-file.ts'
import { BundleFile } from './bundle-file.ts'
import { BundleIntake, type IntakeResult } from './bundle-intake.ts'
import type { OfferedBundle } from './bundle-source.ts'
import { readPublicKeys } from './signature.ts'

const signer = newSigner()

describe.concurrent('a bundle and its signature that are not replaced at once', () => {
  test('the bundle first: it is offered in vain, nothing is said, and it is taken when its signature comes', async (t) => {
    const { path, intake, said } = await following(t)
    await replaceFile(path, known(2))
    await until(() => intake.results.length === 2)
    expect(intake.results[1]).toMatchObject({ result: 'refused', lacksSignature: true })
    await replaceFile(`${path}.sig`, signer.sign(known(2)))
    await until(() => intake.active?.version === '2')
    await until(() => said.length === 2)
    expect(said).toEqual(['bundle_applied', 'bundle_applied'])
  })

  test('the signature first: it is no news of the active bundle, and fits the one that comes', async (t) => {
    const { path, intake, said } = await following(t)
    await replaceFile(`${path}.sig`, signer.sign(known(2)))
    await seenTwice(`${path}.sig`, signer.sign(known(2)), t)
    expect(intake.results).toHaveLength(1)
    await replaceFile(path, known(2))
    await until(() => said.length === 2)
    expect(said).toEqual(['bundle_applied', 'bundle_applied'])
  })

  test('the signature only when the bundle has gone: it is not taken', async (t) => {
    const { path, intake, said } = await following(t, 20)
    await replaceFile(path, known(2))
    await until(() => said.includes('bundle_refused'))
    await rm(path)
    await until(() => said.includes('bundle_unreadable'))
    await seenTwice(`${path}.sig`, signer.sign(known(2)), t)
    expect(intake.active?.version).toBe('1')
    await replaceFile(path, known(2))
    await until(() => intake.active?.version === '2')
  })
})

test('an offer that fails is told of once and made again, and so is the next one', async (t) => {
  const { path, intake, said } = await following(t)
  intake.failure = new Error('too many open files')
  await replaceFile(`${path}.sig`, signer.sign(known(2)))
  await replaceFile(path, known(2))
  await until(() => intake.failures > 1)
  expect(said).toEqual(['bundle_applied', 'bundle_unreadable'])
  intake.failure = undefined
  await until(() => intake.active?.version === '2')
  await replaceFile(`${path}.sig`, signer.sign(known(3)))
  await replaceFile(path, known(3))
  await until(() => intake.active?.version === '3')
})

class NotingIntake extends BundleIntake {
  readonly results: IntakeResult[] = []
  /** What each offer fails with. */
  failure: Error | undefined
  failures = 0

  override async offer(bundle: OfferedBundle): Promise<IntakeResult> {
    if (this.failure !== undefined) {
      this.failures++
      throw this.failure
    }
    const result = await super.offer(bundle)
    this.results.push(result)
    return result
  }
}

/** A bundle file with version 1, signed and taken, of which a bundle that lacks its signature is reported after so long; else never. */
async function following(t: TestContext, patienceMs = 3_600_000): Promise<{ path: string; intake: NotingIntake; said: unknown[] }> {
  const path = join(await scratchDirectory(t), 'bundle.json')
  await replaceFile(path, known(1))
  await replaceFile(`${path}.sig`, signer.sign(known(1)))
  const said: unknown[] = []
  const logger = pino({}, { write: (line: string) => void said.push(JSON.parse(line).event) })
  const intake = new NotingIntake(
    async () => {},
    () => 0,
    readPublicKeys(signer.publicText),
  )
  const counts = { count: 0 }
  const parts = { logger, reloads: { series: () => counts }, active: () => intake.active }
  const file = new BundleFile(path, true, intake, parts, patienceMs)
  t.onTestFinished(() => file.stop())
  await file.start()
  expect(said).toEqual(['bundle_applied'])
  return { path, intake, said }
}

/** Puts this signature there twice over, so long that another follower of the file has seen it at least once. */
async function seenTwice(path: string, signature: string, t: TestContext): Promise<void> {
  let seen = ''
  const follower = new WatchedFile(path, 4096, {
    onContent: (bytes) => {
      seen = bytes.toString()
    },
    onProblem() {},
  })
  t.onTestFinished(() => follower.stop())
  await follower.start()
  for (const text of [signature, `${signature}\n`, `${signature}\n\n`]) {
    await replaceFile(path, text)
    await until(() => seen === text)
  }
}
