// Experiments: what became of the users who saw each variant.

import {count, el, table} from './elements.js'
import {identifier, money, percent} from './numbers.js'

/// A card for each experiment, as `GET /v1/experiments` answers.
export const experimentCards = ({experiments}) => experiments.map((experiment) => {
  const name = `Experiment ${experiment.name}${experiment.running ? '' : ', no longer in the catalog'}`
  return el('section', {class: 'card', 'aria-label': name},
    experiment.sample_ratio_mismatch ? el('p', {class: 'notice warn'}, 'Users saw the variants in other shares than the ' +
      'weights say. Find out why before you trust these figures.') : null,
    table(name, ['Variant', 'Saw it', 'Paid', 'Revenue'], experiment.variants.map((variant) => [
      identifier(variant.name), count(variant.exposed),
      [count(variant.paid), variant.conversion === null ? null : [el('span', null, percent(variant.conversion)),
        el('span', {class: 'soft'}, `${percent(variant.conversion_low)} to ${percent(variant.conversion_high)}`)]],
      variant.money.map((one) => el('span', null, money(one.currency)(Number(one.revenue)))),
    ])))
})
