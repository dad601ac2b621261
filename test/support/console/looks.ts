import type { BrowserContextOptions, Page } from 'playwright-core'
import { expect } from 'vitest'
import { findings } from './axe.ts'

const SIZES: readonly (readonly [string, BrowserContextOptions])[] = [
  ['on a desk', { viewport: { width: 1280, height: 800 } }],
  ['on a tablet', { viewport: { width: 768, height: 1024 }, hasTouch: true }],
  ['on a phone', { viewport: { width: 375, height: 750 }, hasTouch: true, isMobile: true }],
  ['on a large screen', { viewport: { width: 1920, height: 1080 } }],
]

/** Every size in light and in dark colours. */
export const LOOKS: readonly (readonly [string, BrowserContextOptions])[] = SIZES.flatMap(([size, options]) =>
  (['light', 'dark'] as const).map((colorScheme) => [`${colorScheme}, ${size}`, { ...options, colorScheme }] as const),
)

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
