import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const ROOT = fileURLToPath(new URL('../../..', import.meta.url))
const FOLDERS = ['test/e2e', 'test/conformance']
/** What a test needs that sends requests through the proxy. */
const PROXY = /support\/(?:proxy|llm)\/|reverse_proxy/

/** The end-to-end tests in which the proxy takes part, as they are found now: none of them is forgotten in a second run. */
export function proxyTests(): string[] {
  return FOLDERS.flatMap((folder) =>
    readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.test.ts'))
      .map((name) => `${folder}/${name}`)
      .filter((file) => PROXY.test(readFileSync(join(ROOT, file), 'utf8'))),
  ).sort()
}
