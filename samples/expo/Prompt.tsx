// What stands at a limit: a prompt that names the plan which lifts it, and a badge at a feature that the user's plan lacks.

import * as React from 'react';
import {Modal, Pressable, Text, View} from 'react-native';
import {useFeature, usePlanThatLifts} from 'countersign/react';
import type {UpgradePrompt} from 'countersign/react';

/**
 *     const prompt = useUpgradePrompt('children');
 *     <Button title="Add a child" onPress={() => prompt.check() && add()} />
 *     <Prompt prompt={prompt} title="Children" openPaywall={() => navigate('paywall')} />
 */
export function Prompt({prompt, title, openPaywall}: {prompt: UpgradePrompt; title: string; openPaywall: () => void}) {
  const {isShown, plan, limit, accept, dismiss} = prompt;
  const text = limit === null ? `${title} are not in your plan.` : `Your plan has ${limit} of these.`;
  return (
    <Modal visible={isShown} transparent animationType="fade" onRequestClose={dismiss}>
      <View style={{flex: 1, justifyContent: 'center', padding: 24, backgroundColor: '#00000099'}}>
        <View accessibilityViewIsModal style={{backgroundColor: '#ffffff', borderRadius: 14, padding: 20, gap: 12}}>
          <Text accessibilityRole="header" style={{fontSize: 20, fontWeight: '600'}}>{title}</Text>
          <Text style={{fontSize: 16}}>{plan ? `${text} ${plan.name} has more.` : text}</Text>
          {plan && (
            <Pressable
              accessibilityRole="button"
              onPress={() => {
                accept();
                openPaywall();
              }}
            >
              <Text style={{fontSize: 16, color: '#0057d9'}}>{`See ${plan.name}`}</Text>
            </Pressable>
          )}
          <Pressable accessibilityRole="button" onPress={dismiss}>
            <Text style={{fontSize: 16, color: '#0057d9'}}>Not now</Text>
          </Pressable>
        </View>
      </View>
    </Modal>
  );
}

/** The name of the plan that has the feature; nothing where the user may use it, and while that is not known. */
export function PlanBadge({feature}: {feature: string}) {
  const {allowed} = useFeature(feature);
  const plan = usePlanThatLifts(feature);
  if (allowed !== false || !plan) return null;
  return (
    <Text
      accessibilityLabel={`In ${plan.name}`}
      style={{alignSelf: 'flex-start', paddingHorizontal: 8, borderRadius: 8, overflow: 'hidden', backgroundColor: '#0057d9', color: '#ffffff'}}
    >
      {plan.name}
    </Text>
  );
}
