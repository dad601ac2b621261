import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import type { Page } from 'playwright-core'

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

/** What axe-core finds, by rule and element. */
export async function findings(page: Page): Promise<readonly string[]> {
  await page.evaluate(AXE)
  return page.evaluate(`axe.run().then(({ violations }) =>
    violations.flatMap(({ id, nodes }) => nodes.map(({ html, any }) => id + ': ' + html + ' ' + any.map(({ message }) => message).join())))`)
}
