import axe from 'axe-core'
import type { Page } from 'playwright-core'

/** What axe-core finds, by rule and element. */
export async function findings(page: Page): Promise<readonly string[]> {
  if (!(await page.evaluate('"axe" in window'))) await page.evaluate(axe.source)
  return page.evaluate(`axe.run().then(({ violations }) =>
    violations.flatMap(({ id, nodes }) => nodes.map(({ html, any }) => id + ': ' + html + ' ' + any.map(({ message }) => message).join())))`)
}
