import type { BrowserContextOptions, Page } from 'playwright-core'
import { expect } from 'vitest'
import { findings } from './axe.ts'

const DESK = { viewport: { width: 1280, height: 800 } }
const TABLET = { viewport: { width: 768, height: 1024 }, hasTouch: true }
const PHONE = { viewport: { width: 375, height: 750 }, hasTouch: true, isMobile: true }
const LARGE_SCREEN = { viewport: { width: 1920, height: 1080 } }

/** Every size once, and the most frequent one in both colours: colours do not move anything. */
export const LOOKS: readonly (readonly [string, BrowserContextOptions])[] = [
  ['light, on a desk', { ...DESK, colorScheme: 'light' }],
  ['dark, on a desk', { ...DESK, colorScheme: 'dark' }],
  ['light, on a tablet', { ...TABLET, colorScheme: 'light' }],
  ['dark, on a phone', { ...PHONE, colorScheme: 'dark' }],
  ['light, on a large screen', { ...LARGE_SCREEN, colorScheme: 'light' }],
]

/** Expects of what is shown now: axe-core objects to nothing, the page does not scroll sideways, and what scrolls in it says so. */
export async function expectFine(page: Page, what: string): Promise<void> {
  expect([what, await findings(page)]).toEqual([what, []])
  expect([what, await page.evaluate('document.documentElement.scrollWidth - document.documentElement.clientWidth')]).toEqual([what, 0])
  expect([what, await silentScrollers(page)]).toEqual([what, []])
}

/** Frames of tables that hide something without a sign: a faded edge where there is more, and a sentence where columns are hidden. */
function silentScrollers(page: Page): Promise<readonly string[]> {
  return page.evaluate(`[...document.querySelectorAll('.table')]
    .filter((frame) => {
      const hides = { below: frame.scrollTop + frame.clientHeight < frame.scrollHeight - 1, right: frame.scrollWidth > frame.clientWidth + 1 }
      const says = { below: frame.classList.contains('more-below'), right: frame.matches('.more-left, .more-right') && frame.nextElementSibling?.className === 'sideways' }
      return (hides.below && !says.below) || (hides.right && !says.right)
    })
    .map((frame) => frame.getAttribute('aria-label'))`)
}
