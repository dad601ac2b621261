import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'

const TYPESCRIPT = new URL('../../../../test/support/run/typescript.mjs', import.meta.url).href

test('string methods are as fast with the Redis client as without it', async () => {
  // A process of its own, because other tests may have loaded the client already.
  expect(await isStringPrototypeFastWith('node:net')).toBe(true)
  expect(await isStringPrototypeFastWith('ioredis')).toBe(false)
  expect(await isStringPrototypeFastWith(new URL('node-client.ts', import.meta.url).href)).toBe(true)
})

/** Returns whether V8 keeps String.prototype as a fast object, not as a dictionary, in a process that has loaded the module. */
async function isStringPrototypeFastWith(module: string): Promise<boolean> {
  const script = `await import(${JSON.stringify(module)}); console.log(%HasFastProperties(String.prototype))`
  const flags = ['--allow-natives-syntax', '--import', TYPESCRIPT, '--input-type=module']
  const { stdout } = await promisify(execFile)(process.execPath, [...flags, '--eval', script])
  return stdout.trim() === 'true'
}
