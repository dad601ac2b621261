import { newEmbeddedStore } from '../../src/store/embedded-store.ts'
import { describeCounterStore } from './counter-store.ts'
import { describeLimitChange } from './limit-change.ts'
import { describeSettlement } from './settlement.ts'

const newStore = () => newEmbeddedStore(256 * 1024)

describeCounterStore('EmbeddedStore', newStore)
describeLimitChange('EmbeddedStore', newStore)
describeSettlement('EmbeddedStore', newStore)
