import { bundle, policy, rateRule, windowRule } from '../bundles/bundles.ts'

/** So long that hardly ever a test sees one end. */
const YEAR = { limit: 10, period: '1y', timezone: 'Asia/Kathmandu' }

const QUOTA = policy('quota', { selector: { pathPrefix: '/quota' }, rules: [windowRule('ten', ['header:x-caller'], YEAR)] })

/** A week from Sunday and a month from day 15: windows that only calendars with an anchor have. */
const ANCHORED = policy('anchored', {
  selector: { pathPrefix: '/anchored' },
  rules: [
    windowRule('week', ['header:x-week'], { limit: 10, period: '1w', anchor: 'sunday' }),
    windowRule('month', ['header:x-month'], { limit: 10, period: '1mo', anchor: 15 }),
  ],
})

const DEAR = policy('dear', { selector: { pathPrefix: '/dear' }, rules: [rateRule('dear', [], { rate: '10/day', cost: 3 })] })

const OVERDRAWN = { cost: { header: 'x-cost', max: 1000 }, when_over: 'charge' }

const DEBT = policy('debt', {
  selector: { pathPrefix: '/debt' },
  rules: [
    rateRule('rate', ['header:x-rate'], { rate: '10/day', ...OVERDRAWN }),
    windowRule('window', ['header:x-window'], { ...YEAR, ...OVERDRAWN }),
  ],
})

export const ALL = bundle(1, QUOTA, ANCHORED, DEAR, DEBT)
