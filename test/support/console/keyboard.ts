import type { Page } from 'playwright-core'
import { expect } from 'vitest'

/** No view has more controls than this before the one that a test looks for. */
const MAX_TABS = 80

/** The name of what has the focus: its label or its text. */
export function focused(page: Page): Promise<string> {
  return page.evaluate(`(() => {
    const { activeElement: element } = document
    if (element === document.body) return ''
    return (element.labels?.[0] ?? element).textContent.trim()
  })()`)
}

/** Presses Tab until the control with this name has the focus. */
export async function tabTo(page: Page, name: string | RegExp): Promise<void> {
  for (let i = 0; i < MAX_TABS; i++) {
    const found = await focused(page)
    if (typeof name === 'string' ? found === name : name.test(found)) return
    await page.keyboard.press('Tab')
  }
  expect.fail(`${name} cannot be reached with the Tab key`)
}
